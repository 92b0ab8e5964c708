"""Run the measurement as `python -m quicksilver.bench.scale`."""

from quicksilver.bench.scale.run import scale

if __name__ == "__main__":
    scale()
