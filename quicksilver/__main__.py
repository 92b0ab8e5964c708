"""Run the program as `python -m quicksilver`."""

from quicksilver.process.start import main

if __name__ == "__main__":
    main()
