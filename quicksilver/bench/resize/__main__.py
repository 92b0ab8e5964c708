"""`python -m quicksilver.bench.resize`."""

from quicksilver.bench.resize.run import resize

if __name__ == "__main__":
    resize()
