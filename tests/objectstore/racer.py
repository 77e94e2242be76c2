"""A process that races others for a folder store: `python -m tests.objectstore.racer PATH NAME N`.

Adds 1 to a counter N times by compare-and-swap, prints a line for each time that it won, and tries
to create the same N objects as everybody else.
"""

import asyncio
import sys

from tierlog.env import local_env
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.folder import FolderStore
from tierlog.objectstore.port import Outcome


async def add_one(store: FolderStore, name: str) -> None:
    while True:
        got = await store.get("counter/HEAD")
        count = int(bytes(got.data).split()[0])
        body = BytesBody(f"{count + 1} {name}".encode())
        written = await store.put_if_match("counter/HEAD", body, etag=got.stat.etag)
        if written.outcome is Outcome.WON:
            return


async def race(path: str, name: str, rounds: int) -> None:
    store = FolderStore(local_env(), path)
    for number in range(rounds):
        await add_one(store, name)
        print("added", flush=True)
        body = BytesBody(f"{name} {number}".encode())
        written = await store.put_if_absent(f"created/{number}", body)
        if written.outcome is Outcome.WON:
            print(f"created {number}", flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(race(sys.argv[1], sys.argv[2], int(sys.argv[3])))
