"""Run the program as `python -m quicksilver`."""

from quicksilver.cli import load, main
from quicksilver.process.standby_process import stand_by

if __name__ == "__main__":
    stand_by(load)
    main()
