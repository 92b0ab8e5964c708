"""`python -m quicksilver_lab.bench.mixes`."""

from quicksilver_lab.bench.mixes.run import mixes

if __name__ == "__main__":
    mixes()
