"""`python -m quicksilver.bench.zoe`."""

from quicksilver.bench.zoe.run import zoe

if __name__ == "__main__":
    zoe()
