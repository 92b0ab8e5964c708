"""`python -m quicksilver.bench.policies`."""

from quicksilver.bench.policies.run import policies

if __name__ == "__main__":
    policies()
