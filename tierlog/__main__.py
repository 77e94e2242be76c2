"""`python -m tierlog` is `tierlog`."""

from tierlog.cli import main

if __name__ == "__main__":
    main()
