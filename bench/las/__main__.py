"""`python -m bench.las`."""

from bench.las.run import main

if __name__ == "__main__":
    main()
