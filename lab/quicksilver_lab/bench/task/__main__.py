"""Run the measurement as `python -m quicksilver_lab.bench.task`."""

from quicksilver_lab.bench.task.run import task

if __name__ == "__main__":
    task()
