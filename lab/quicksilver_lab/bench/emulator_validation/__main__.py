"""`python -m quicksilver_lab.bench.emulator_validation`."""

from quicksilver_lab.bench.emulator_validation.run import emulator_validation

if __name__ == "__main__":
    emulator_validation()
