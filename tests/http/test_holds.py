"""`/holds`: placed, listed, explained and released beside a bucket; what is refused, and how."""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from tests.cold.tiering import Door
from tests.http.nodes import RunningNode
from tests.http.test_cold import Scenario, cold_node, make_cold
from tests.http.test_prewarm import ask
from tierlog.broker.controller import NewTopic

__all__ = ["cold_node"]

WANTED = {"topic": "t", "id": "case-7", "reason": "Prüfung & more", "spans": "0:1-2,1:-"}


def target(**others: str) -> str:
    return f"/holds?{urlencode(WANTED | others)}"


async def explained(node: RunningNode, index: int) -> dict[str, Any]:
    _, body = await ask(node, "GET", f"/explain/t/{index}")
    found: dict[str, Any] = body["partitions"][0]
    return found


def test_a_hold_is_placed_listed_explained_and_released(
    cold_node: Callable[[Scenario], None],
) -> None:
    async def scenario(node: RunningNode, door: Door) -> None:
        await make_cold(node)
        nothing = {"holds": [], "left_out": 0, "unknown": []}
        assert await ask(node, "GET", "/holds") == (200, nothing)
        done = {"error": None, "is_retriable": False}
        rows = [
            {"partition": 0, "start": 1, "end": 2, **done},
            {"partition": 1, "start": 0, "end": None, **done},
        ]
        body = {"topic": "t", "id": "case-7", "partitions": rows}
        assert await ask(node, "POST", target()) == (200, body)
        assert await ask(node, "POST", target()) == (200, body)
        _, told = await ask(node, "GET", "/holds?topic=t")
        assert told["holds"] == [
            {
                "topic": "t",
                "partition": row["partition"],
                "id": "case-7",
                "start": row["start"],
                "end": row["end"],
                "reason": "Prüfung & more",
                "is_placed": True,
            }
            for row in rows
        ]
        held = await explained(node, 0)
        assert [one["id"] for one in held["holds"]] == ["case-7"]
        (cold,) = [row for row in held["rows"] if row["state"] == "dropped"]
        assert ("hold", "case-7") in [(one["why"], one["detail"]) for one in cold["reasons"]]
        assert await ask(node, "DELETE", target()) == (200, body)
        assert await ask(node, "GET", "/holds") == (200, nothing)
        assert (await explained(node, 0))["holds"] == []

    cold_node(scenario)


def test_what_does_not_make_sense_or_comes_from_a_page_is_refused(
    cold_node: Callable[[Scenario], None],
) -> None:
    async def scenario(node: RunningNode, _: Door) -> None:
        await make_cold(node)
        plain = NewTopic(name="plain", configs={"remote.storage.enable": "false"})
        await node.node.controller.create(plain)
        for asked, status in (
            ({"topic": "none"}, 404),
            ({"spans": "7:-"}, 404),
            ({"spans": "0"}, 400),
            ({"spans": ""}, 400),
            ({"id": "a b"}, 400),
            ({"reason": "x" * 300}, 400),
            ({"topic": "plain", "spans": "0:-"}, 409),
        ):
            assert (await ask(node, "POST", target(**asked)))[0] == status
        for method in ("POST", "DELETE"):
            assert (await ask(node, method, target(), ""))[0] == 403
        status, body = await ask(node, "DELETE", target())
        assert (status, body["detail"]) == (404, "t has no hold 'case-7'")
        assert (await ask(node, "GET", "/holds?topic=none"))[0] == 404

    cold_node(scenario)


def test_what_is_not_done_is_a_problem_that_tells_of_each_partition(
    cold_node: Callable[[Scenario], None],
) -> None:
    async def scenario(node: RunningNode, door: Door) -> None:
        await make_cold(node)
        status, body = await ask(node, "POST", target(spans="0:2-2,1:-"))
        assert (status, body["detail"]) == (
            409,
            "hold case-7 was not placed on 1 of 2 partitions; partition 0: t-0: nothing lies from "
            "offset 2 to 2",
        )
        door.is_closed = True
        status, body = await ask(node, "POST", target(spans="0:-"))
        assert (status, body["id"]) == (503, "case-7")
        assert [one["is_retriable"] for one in body["partitions"]] == [True]
        assert body["detail"].startswith(
            "hold case-7 was not placed on 1 of 1 partitions; partition 0:"
        )
        assert body["detail"].endswith("ask again with the same id: what is done stays done")
        door.is_closed = False
        await asyncio.sleep(120)
        assert (await ask(node, "POST", target(spans="0:-")))[0] == 200

    cold_node(scenario)
