"""`python -m bench.honest`."""

from bench.honest.run import honest

if __name__ == "__main__":
    honest()
