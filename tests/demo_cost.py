"""The part of the demo that asks what the bucket costs, beside an independent count."""

import subprocess
import sys
from pathlib import Path


def say(text: str) -> None:
    print(text, flush=True)


def count_and_price(store: Path) -> None:
    """The files are the listing; what starts with a dot is how a folder keeps house."""
    say("\n   $ tierlog cost actual --store file://.../data-store")
    made = subprocess.run(
        [sys.executable, "-m", "tierlog", "cost", "actual", "--store", f"file://{store}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise SystemExit(f"cost actual failed: {made.stdout}{made.stderr}")
    for line in made.stdout.split("\n\n")[1].splitlines():
        say(f"   {line}")
    sizes = [path.stat().st_size for path in store.glob("[!.]*/**/*") if path.is_file()]
    told = next(line for line in made.stdout.splitlines() if line.startswith("listing")).split()
    if told[1:3] != [f"{len(sizes):,}", f"{sum(sizes):,}"]:
        raise SystemExit(f"the folder has {len(sizes):,} objects of {sum(sizes):,} bytes: {told}")
    say(f"   a count of the files says the same: {len(sizes):,} objects, {sum(sizes):,} bytes")
