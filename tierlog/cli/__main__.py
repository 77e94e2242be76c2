"""`python -m tierlog.cli` is the `tierlog` program."""

from tierlog.cli import main

if __name__ == "__main__":
    main()
