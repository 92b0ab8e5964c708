"""Run the measurement as `python -m quicksilver_lab.bench.scale`."""

from quicksilver_lab.bench.scale.run import scale

if __name__ == "__main__":
    scale()
