"""Patterns of subscriptions: matched in steps, each name once, and not remembered for ever."""

from typing import Any
from unittest.mock import patch

import pytest

from tierlog.groups import patterns
from tierlog.groups.patterns import Found, InvalidPattern, Matches
from tierlog.groups.topicview import KnownTopic, TopicView


def view(*names: str, before: TopicView | None = None) -> TopicView:
    topics = {name: KnownTopic(name.encode().ljust(16), 1) for name in names}
    return TopicView(topics, before=before)


class Asked:
    """Which names the patterns were held against."""

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self._compiled = patterns.compiled

    def compiled(self, pattern: str) -> Any:
        inner, names = self._compiled(pattern), self.names

        class Noting:
            def fullmatch(self, name: bytes) -> Any:
                names.append(name)
                return inner.fullmatch(name)

        return Noting()


def test_a_pattern_matches_whole_names() -> None:
    topics = view("orders", "orders-2", "old-orders", "\u00fcber")
    assert topics.matching("orders.*") == {"orders", "orders-2"}
    assert topics.matching("orders") == {"orders"}
    assert topics.matching(".ber") == {"\u00fcber"}, "a letter is one, however many bytes it has"


def test_many_names_are_matched_in_steps() -> None:
    names = [f"t{number}" for number in range(3 * patterns.NAMES_A_STEP)]
    topics = view(*names, "other")
    assert not topics.knows("t.*")
    assert len(list(topics.match("t.*"))) == 4
    assert topics.knows("t.*")
    assert topics.matching("t.*") == set(names)


def test_after_a_change_of_topics_only_new_names_are_matched() -> None:
    first = view("t1", "t2", "u1")
    first.matching("t.")
    second = view("t1", "t3", "u2", before=first)
    asked = Asked()
    with patch.object(patterns, "compiled", asked.compiled):
        assert second.matching("t.") == {"t1", "t3"}
    assert sorted(asked.names) == [b"t3", b"u2"]
    assert first.matching("t.") == {"t1", "t2"}, "a view stays what it was"


def test_what_a_view_in_between_was_not_asked_is_known_all_the_same() -> None:
    first = view("t1", "t2")
    first.matching("t.")
    third = view("t1", "t3", before=view("t1", before=first))
    asked = Asked()
    with patch.object(patterns, "compiled", asked.compiled):
        assert third.matching("t.") == {"t1", "t3"}
    assert asked.names == [b"t3"]


def test_no_more_patterns_are_remembered_than_may_be() -> None:
    topics = view("t")
    for number in range(patterns.PATTERNS_MAX + 5):
        topics.matching(f"t{number}?")
    assert len(topics._matches) == len(topics._latest) == patterns.PATTERNS_MAX
    assert topics.matching("t0?") == {"t"}, "what was forgotten is found again"


def test_no_more_names_are_remembered_than_may_be_but_for_the_last_pattern() -> None:
    matches = Matches()
    with patch.object(patterns, "NAMES_MAX", 5):
        for pattern in "abc":
            matches.put(pattern, Found(frozenset(["1", "2"]), ()))
        assert [matches.get(one) is not None for one in "abc"] == [False, True, True]
        matches.put("b", Found(frozenset(["1"]), ()))
        matches.put("d", Found(frozenset("12345678"), ()))
        assert [matches.get(one) is not None for one in "abcd"] == [False, False, False, True]


def test_what_is_no_pattern_is_told_at_the_first_step() -> None:
    with pytest.raises(InvalidPattern, match="RE2"):
        next(view("t").match("("))


def test_a_view_that_is_held_forgets_nothing_while_others_are_matched() -> None:
    topics = view("t1", "t2")
    with patch.object(patterns, "PATTERNS_MAX", 2):
        held = topics.holding()
        asked = [f"t{number}?" for number in range(5)]
        for pattern in asked:
            held.matching(pattern)
        assert all(held.knows(one) for one in asked)
        assert not all(topics.knows(one) for one in asked)
    assert held.matching("t1?") == {"t1"}
    assert held.plain is topics


def test_a_held_view_of_other_topics_goes_on_from_the_one_before() -> None:
    first = view("t1", "t2").holding()
    first.matching("t.")
    second = view("t1", "t3").holding(first)
    asked = Asked()
    with patch.object(patterns, "compiled", asked.compiled):
        assert second.matching("t.") == {"t1", "t3"}
    assert asked.names == [b"t3"]
