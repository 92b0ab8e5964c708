"""`python -m quicksilver_lab.bench.grants`."""

from quicksilver_lab.bench.grants.run import grants

if __name__ == "__main__":
    grants()
