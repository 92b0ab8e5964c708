"""`python -m bench.resize`."""

from bench.resize.run import resize

if __name__ == "__main__":
    resize()
