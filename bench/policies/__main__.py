"""`python -m bench.policies`."""

from bench.policies.run import policies

if __name__ == "__main__":
    policies()
