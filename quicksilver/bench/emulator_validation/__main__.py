"""`python -m quicksilver.bench.emulator_validation`."""

from quicksilver.bench.emulator_validation.run import honest

if __name__ == "__main__":
    honest()
