"""`python -m quicksilver_lab.bench.zoe`."""

from quicksilver_lab.bench.zoe.run import zoe

if __name__ == "__main__":
    zoe()
