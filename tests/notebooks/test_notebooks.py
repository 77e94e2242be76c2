"""The notebooks run, and the pages beside them are what they show."""

import re
import runpy
from pathlib import Path

import pytest

from notebooks.export import FOLDER, NAMES, exported

_DRAWN = re.compile(r"<svg.*?</svg>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


def told(page: str) -> list[str]:
    """Words and figures; how a plot is drawn may differ between versions of the drawer."""
    return _TAG.sub(" ", _DRAWN.sub(" ", page)).split()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_its_page_is_what_it_shows(name: str) -> None:
    """As `python -m notebooks.export` writes it; run that after a change of the model."""
    page = exported(name)
    assert told((FOLDER / f"{name}.html").read_text(encoding="utf-8")) == told(page)
    assert page.count("<svg") >= 2
    for words in ("marimo-", "<script", "<link", "src=", "NaN"):
        assert words not in page, words


@pytest.mark.slow
def test_a_notebook_is_a_script() -> None:
    runpy.run_path(str(FOLDER / "backfill.py"), run_name="__main__")


def test_every_notebook_has_a_page() -> None:
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "export"}
    pages = {path.stem for path in FOLDER.glob("*.html")}
    assert scripts == pages == set(NAMES)
    assert all(Path(FOLDER / f"{name}.html").stat().st_size < 500_000 for name in NAMES)
