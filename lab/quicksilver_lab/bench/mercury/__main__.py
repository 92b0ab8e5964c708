"""`python -m quicksilver_lab.bench.mercury`."""

from quicksilver_lab.bench.mercury.run import mercury

if __name__ == "__main__":
    mercury()
