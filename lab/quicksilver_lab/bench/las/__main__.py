"""`python -m quicksilver_lab.bench.las`."""

from quicksilver_lab.bench.las.run import las

if __name__ == "__main__":
    las()
