"""The alert rules in infra/prometheus: Prometheus can read them, and they ask for what is there.

The file keeps to one shape, so that it can be read without a library: lines of `key: value` at
fixed depths. Anything else fails here.
"""

import re
from pathlib import Path

import pytest

from tierlog.http.families import FAMILIES

RULES = Path(__file__).resolve().parents[2] / "infra" / "prometheus" / "tierlog.rules.yml"
README = RULES.with_name("README.md")
"""Of rooms that are being built: they may be missing."""

Rule = dict[str, str]

RULE_KEYS = {"alert", "expr", "for", "labels", "annotations"}
INNER_KEYS = {"labels": {"severity"}, "annotations": {"summary", "description"}}
SEVERITIES = {"info", "warning", "critical"}
FUNCTIONS = {"deriv", "increase", "and"}
_LINE = re.compile(r'( *)(- )?([a-z_]+):(?: ("(?:[^"\\]|\\.)*"|[^"#{\[&*!|>\'%@`]+.*))?')
_DURATION = re.compile(r"\d+[smhd]")
_WORD = re.compile(r"[a-z][a-z_]*")


def read() -> list[Rule]:
    """Keys of the inner blocks are written `labels.severity`."""
    rules: list[Rule] = []
    inner = ""
    for line in RULES.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        assert match, f"not in the shape of this file: {line}"
        depth, dash, key, value = len(match[1]), match[2], match[3], match[4]
        if depth == 6 and dash and key == "alert":
            rules.append({"alert": value})
        elif depth == 8 and not dash and key in RULE_KEYS:
            inner = key
            if value is not None:
                rules[-1][key] = value
            assert (value is None) == (key in INNER_KEYS), line
        elif depth == 10 and not dash and key in INNER_KEYS[inner]:
            rules[-1][f"{inner}.{key}"] = value
        else:
            assert (depth, bool(dash), key) in FRAME, line
    return rules


FRAME = {(0, False, "groups"), (2, True, "name"), (4, False, "rules")}
ALL = read()


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule["alert"])
def test_a_rule_says_when_how_grave_and_what_to_do(rule: Rule) -> None:
    assert rule["labels.severity"] in SEVERITIES
    assert rule["annotations.summary"].startswith('"')
    assert "{{ $labels.instance }}" in rule["annotations.summary"]
    assert len(rule["annotations.description"]) > 20
    assert "for" not in rule or _DURATION.fullmatch(rule["for"])


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule["alert"])
def test_every_metric_of_a_rule_is_one_that_the_node_has(rule: Rule) -> None:
    known = {family.name for family in FAMILIES}
    spans = re.compile(r"\[\d+[smhd]\]|\b[\d.]+e?\d*\b")
    words = set(_WORD.findall(spans.sub("", rule["expr"])))
    assert words - FUNCTIONS <= known, rule["expr"]
    assert any(word.startswith("tierlog_") for word in words)


def test_every_alert_has_its_line_in_the_readme_and_one_name() -> None:
    names = [rule["alert"] for rule in ALL]
    assert len(set(names)) == len(names)
    told = set(re.findall(r"\b[A-Z][A-Za-z]+\b", README.read_text()))
    assert {name.removeprefix("Tierlog") for name in names} <= told


def test_what_an_operator_must_hear_of_is_there() -> None:
    asked = " ".join(rule["expr"] for rule in ALL)
    for metric in (
        "tierlog_tier_ready == 0",
        "tierlog_tier_upload_lag_seconds",
        "deriv(tierlog_tier_backlog_bytes",
        "tierlog_disk_hours_left < 6",
        "tierlog_disk_hours_left < 1",
        "tierlog_tier_failing_partitions",
        "tierlog_tier_fenced_partitions",
        "tierlog_tier_refused",
        "tierlog_scrub_findings",
        "increase(tierlog_cold_corrupt_total",
        "tierlog_tier_orphan_objects",
        "tierlog_groups_lag_age_seconds",
    ):
        assert metric in asked
