"""`python -m bench.mercury`."""

from bench.mercury.run import mercury

if __name__ == "__main__":
    mercury()
