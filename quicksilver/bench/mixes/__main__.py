"""`python -m quicksilver.bench.mixes`."""

from quicksilver.bench.mixes.run import mixes

if __name__ == "__main__":
    mixes()
