"""Run the measurement as `python -m bench.scale`."""

from bench.scale.run import scale

if __name__ == "__main__":
    scale()
