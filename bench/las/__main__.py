"""`python -m bench.las`."""

from bench.las.run import las

if __name__ == "__main__":
    las()
