"""`python -m quicksilver_lab.bench.policies`."""

from quicksilver_lab.bench.policies.run import policies

if __name__ == "__main__":
    policies()
