"""What the pages point to is there."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
"""A Markdown link to a place in this repository: no scheme, its anchor cut off."""
TICKED = re.compile(r"`((?:tierlog|tests|benchmarks|docs|cost_model|examples)/[\w./-]+)`")
"""A path as the prose writes it."""


def pages() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / line for line in listed.stdout.splitlines()]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    dead = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    dead += [path for path in TICKED.findall(text) if not (ROOT / path).exists()]
    assert not dead
