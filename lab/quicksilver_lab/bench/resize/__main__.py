"""`python -m quicksilver_lab.bench.resize`."""

from quicksilver_lab.bench.resize.run import resize

if __name__ == "__main__":
    resize()
