"""The command line: what people and scripts type.

`app.py` names commands, options and help and imports nothing heavy, so that `--help` and a usage
error are immediate; each command lives in a module of its own that is imported when it runs.
Results go to stdout, everything said to a person to stderr. Exit codes: 0 done, 1 failed, 2 usage.
What a command does to a cluster belongs to `client/`, what `serve` starts to `server.py`.
"""


def main() -> None:
    """The entry point of the `tierlog` program."""
    from tierlog.cli.app import app

    app(prog_name="tierlog")
