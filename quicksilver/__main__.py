"""Run the program as `python -m quicksilver`."""

from quicksilver.cli import main

if __name__ == "__main__":
    main()
