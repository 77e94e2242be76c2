"""Runs a server and ends it when whoever started this does, however that happens.

    python keeper.py PROGRAM WORD ...

Standard input is a pipe that nobody writes to: it ends with its other side, killed or not.
"""

import contextlib
import subprocess
import sys
import threading


def main(words: list[str]) -> int:
    server = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    threading.Thread(target=end_with_input, args=[server], daemon=True).start()
    return server.wait()


def end_with_input(server: subprocess.Popen[bytes]) -> None:
    sys.stdin.buffer.read()
    with contextlib.suppress(ProcessLookupError):
        # Not asked to: SeaweedFS takes twenty seconds to say good-bye, and nobody wants its data.
        server.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
