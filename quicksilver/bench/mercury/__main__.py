"""`python -m quicksilver.bench.mercury`."""

from quicksilver.bench.mercury.run import mercury

if __name__ == "__main__":
    mercury()
