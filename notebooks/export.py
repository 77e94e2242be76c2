"""Runs the notebooks and writes what they show as pages beside them: `python -m notebooks.export`.

A page stands still: sliders become the values that they had. Plots are inline SVG, and nothing is
loaded from elsewhere, which marimo's own export would do. Open the notebook itself to play.
"""

import html
import importlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cost_model.page import page, plot

FOLDER = Path(__file__).parent
NAMES = ("what_if", "compliance", "backfill")
_CONTROL = re.compile(r"<marimo-ui-element.*?</marimo-ui-element>", re.DOTALL)
_LABEL = re.compile(r"data-label='([^']*)'")
_VALUE = re.compile(r"data-initial-value='([^']*)'")
_TAG = re.compile(r"<[^>]*>")
_TITLE = re.compile(r"<h1.*?</h1>", re.DOTALL)


def outputs_of(name: str) -> Sequence[Any]:
    """What the cells of a notebook show, in order."""
    outputs, _ = importlib.import_module(f"notebooks.{name}").app.run()
    return [each for each in outputs if each is not None]


def parts(outputs: Sequence[Any]) -> Iterator[str]:
    for at, each in enumerate(outputs):
        if hasattr(each, "to_dict"):
            yield plot(each, name=f"plot{at}", caption="")
        else:
            yield _CONTROL.sub(_standing, _TITLE.sub("", each.text))


def _standing(control: "re.Match[str]") -> str:
    """A slider or a list as it was set."""
    label, value = (
        json.loads(html.unescape(found[1])) if (found := each.search(control[0])) else ""
        for each in (_LABEL, _VALUE)
    )
    chosen = value[0] if isinstance(value, list) else value
    return f"<div>{_TAG.sub('', str(label))}: <b>{html.escape(str(chosen))}</b></div>"


def exported(name: str) -> str:
    title = importlib.import_module(f"notebooks.{name}").app._config.app_title
    where = f'<p class="how">Exported from notebooks/{name}.py, which has sliders.</p>'
    return page(str(title), [where, *parts(outputs_of(name))])


def main() -> None:
    for name in NAMES:
        (FOLDER / f"{name}.html").write_text(exported(name), encoding="utf-8")


if __name__ == "__main__":
    main()
