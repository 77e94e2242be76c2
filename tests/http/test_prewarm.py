"""`/prewarm`: a run beside a bucket, in virtual time; who may begin one, and what is refused."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.cold.tiering import Door
from tests.http.nodes import RunningNode
from tests.http.support import calling
from tests.http.test_cold import Scenario, cold_node, make_cold

__all__ = ["cold_node"]

HEADER = "x-tierlog: test\r\n"


async def ask(
    node: RunningNode, method: str, target: str, head: str = HEADER
) -> tuple[int, dict[str, Any]]:
    host, _, port = node.server.view.addresses["http"].rpartition(":")
    async with calling(host, int(port)) as caller:
        caller.send(f"{method} {target} HTTP/1.1\r\nHost: node\r\n{head}\r\n".encode())
        answer = await caller.answer()
    return answer.status, json.loads(answer.body)


def test_a_range_is_priced_loaded_and_found_by_readers(
    cold_node: Callable[[Scenario], None],
) -> None:
    async def scenario(node: RunningNode, door: Door) -> None:
        await make_cold(node)
        assert (await ask(node, "GET", "/prewarm"))[0] == 404
        target = "/prewarm?topic=t&spans=0:0-100,1:0-100"
        status, priced = await ask(node, "POST", f"{target}&dry_run=1")
        assert (status, priced["done"], priced["gets"]) == (200, True, 2)
        assert priced["usd"] > 0
        status, begun = await ask(node, "POST", target)
        assert status == 202
        state = begun
        while not state["done"]:
            await asyncio.sleep(0.1)
            _, state = await ask(node, "GET", "/prewarm")
        assert state["loaded_bytes"] == priced["loaded_bytes"] > 2000
        assert (state["error"], state["left_bytes"]) == (None, 0)
        async with node.client() as client:
            assert len((await client.fetch("t", 0, 0)).batches) > 2000
        clients = {one["client"]: one for one in (await node.state())["tier"]["clients"]}
        assert clients["(prewarm)"]["gets"] == priced["gets"]
        assert sum(one["gets"] for one in clients.values()) == priced["gets"]

    cold_node(scenario)


def test_what_does_not_make_sense_or_comes_from_a_page_is_refused(
    cold_node: Callable[[Scenario], None],
) -> None:
    async def scenario(node: RunningNode, _: Door) -> None:
        await make_cold(node)
        for target, status in (
            ("/prewarm?topic=none&spans=0:0-1", 404),
            ("/prewarm?topic=t&spans=7:0-1", 404),
            ("/prewarm?topic=t&spans=0:5", 400),
            ("/prewarm?topic=t", 400),
            ("/prewarm?topic=t&spans=0:0-1&budget=lots", 400),
        ):
            assert (await ask(node, "POST", target))[0] == status
        for method in ("POST", "DELETE"):
            assert (await ask(node, method, "/prewarm?topic=t&spans=0:0-1", ""))[0] == 403

    cold_node(scenario)


def test_one_run_at_a_time_and_it_can_be_ended(cold_node: Callable[[Scenario], None]) -> None:
    async def scenario(node: RunningNode, door: Door) -> None:
        await make_cold(node)
        door.is_closed = True  # Its GETs are repeated for a while.
        target = "/prewarm?topic=t&spans=0:0-100"
        assert (await ask(node, "POST", target))[0] == 202
        assert (await ask(node, "POST", target))[0] == 409
        status, ended = await ask(node, "DELETE", "/prewarm")
        assert (status, ended["done"]) == (200, True)
        door.is_closed = False
        assert (await ask(node, "POST", target))[0] == 202

    cold_node(scenario)
