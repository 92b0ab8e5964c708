"""`python -m quicksilver.bench.las`."""

from quicksilver.bench.las.run import las

if __name__ == "__main__":
    las()
