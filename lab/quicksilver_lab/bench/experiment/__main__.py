"""`python -m quicksilver_lab.bench.experiment`."""

from quicksilver_lab.bench.experiment.run import run

if __name__ == "__main__":
    run()
