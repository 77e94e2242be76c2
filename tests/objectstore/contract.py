"""What every object store promises while nothing goes wrong. Each adapter subclasses the suite."""

import asyncio
from collections.abc import Sequence

import pytest
from crc32c import crc32c

from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import NoSuchObject, ObjectChanged, StoreBadRequest
from tierlog.objectstore.port import Doomed, ObjectStore, Outcome, Part, Span, Stat, Upload, Written
from tierlog.types import Position

PART_BYTES = 5 << 20


class WrongBody(BytesBody):
    """Arrives with one bit changed on the way."""

    @property
    def crc32c(self) -> int:
        return super().crc32c ^ 1


def span(start: int, end: int) -> Span:
    return Span(Position(start), Position(end))


async def put(store: ObjectStore, key: str, data: bytes) -> Written:
    written = await store.put_if_absent(key, BytesBody(data))
    assert written.outcome is Outcome.WON, written
    assert written.etag
    return written


async def read(store: ObjectStore, key: str) -> bytes:
    return bytes((await store.get(key)).data)


async def stats(store: ObjectStore, prefix: str = "", *, after: str = "") -> list[Stat]:
    pages = [page async for page in store.list(prefix, after=after)]
    assert all(len(page) <= 1000 for page in pages)
    return [stat for page in pages for stat in page]


async def keys(store: ObjectStore, prefix: str = "", *, after: str = "") -> list[str]:
    return [stat.key for stat in await stats(store, prefix, after=after)]


async def uploads(store: ObjectStore, prefix: str = "") -> list[tuple[str, str]]:
    return [(each.key, each.id) async for page in store.list_uploads(prefix) for each in page]


async def put_parts(store: ObjectStore, upload: Upload, pieces: Sequence[bytes]) -> list[Part]:
    numbered = enumerate(pieces, start=1)
    return [await store.put_part(upload, number, BytesBody(data)) for number, data in numbered]


class ObjectStoreContract:
    """Fixture of the subclass: `store`, open and empty."""

    many = 1010
    """Objects of a listing that takes more than a page; fewer where each costs a sync."""

    # Reading

    async def test_what_was_put_is_read_whole(self, store: ObjectStore) -> None:
        for key, data in {"a/b.c": b"x", "a/empty": b"", "a/big": bytes(range(256)) * 9000}.items():
            written = await put(store, key, data)
            got = await store.get(key)
            assert bytes(got.data) == data
            assert (got.stat.key, got.stat.size, got.stat.etag) == (key, len(data), written.etag)

    async def test_a_stat_tells_size_and_etag_and_a_checksum_if_it_has_one(
        self, store: ObjectStore
    ) -> None:
        written = await put(store, "a", b"hello")
        stat = await store.head("a")
        assert (stat.key, stat.size, stat.etag) == ("a", 5, written.etag)
        assert stat.crc32c in (None, crc32c(b"hello"))
        assert stat.modified_ms > 1_600_000_000_000

    async def test_a_range_is_exactly_as_long_as_asked_for(self, store: ObjectStore) -> None:
        data = bytes(range(256)) * 5000
        await put(store, "a", data)
        for start, end in ((0, 1), (0, 256), (1000, 1_200_000), (len(data) - 1, len(data))):
            got = await store.get("a", span=span(start, end))
            assert bytes(got.data) == data[start:end]
            assert got.stat.size == len(data)

    @pytest.mark.parametrize(("start", "end"), [(0, 6), (5, 6), (3, 3), (4, 3), (-1, 2)])
    async def test_a_range_outside_the_object_is_refused(
        self, store: ObjectStore, start: int, end: int
    ) -> None:
        await put(store, "a", b"hello")
        with pytest.raises(StoreBadRequest):
            await store.get("a", span=span(start, end))

    async def test_a_tail_is_the_end_or_the_whole(self, store: ObjectStore) -> None:
        await put(store, "a", b"hello")
        await put(store, "empty", b"")
        for size, expected in ((1, b"o"), (5, b"hello"), (500, b"hello")):
            got = await store.get_tail("a", size)
            assert (bytes(got.data), got.stat.size, got.stat.key) == (expected, 5, "a")
        assert bytes((await store.get_tail("empty", 8)).data) == b""
        with pytest.raises(StoreBadRequest):
            await store.get_tail("a", 0)

    async def test_what_is_not_there_is_named(self, store: ObjectStore) -> None:
        await put(store, "a/b", b"")
        for call in (
            store.get("a/absent"),
            store.get("absent/x", span=span(0, 1)),
            store.get("a"),
            store.get_tail("a/absent", 8),
            store.head("a/absent"),
            store.head("a/b/c"),
            store.copy("a/absent", "target"),
        ):
            with pytest.raises(NoSuchObject):
                await call

    async def test_a_read_of_another_etag_is_refused(self, store: ObjectStore) -> None:
        old = await put(store, "a", b"old")
        await store.put_if_match("a", BytesBody(b"new"), etag=old.etag)
        with pytest.raises(ObjectChanged):
            await store.get("a", etag=old.etag)
        with pytest.raises(ObjectChanged):
            await store.get("a", etag=old.etag, span=span(0, 1))
        now = await store.head("a")
        assert bytes((await store.get("a", etag=now.etag, span=span(1, 3))).data) == b"ew"

    # Writing

    async def test_an_object_that_exists_is_not_overwritten(self, store: ObjectStore) -> None:
        first = await put(store, "a", b"first")
        for data in (b"other", b"first"):
            assert (await store.put_if_absent("a", BytesBody(data))).outcome is Outcome.LOST
        assert await read(store, "a") == b"first"
        assert (await store.head("a")).etag == first.etag

    async def test_a_swap_wins_once_for_each_etag(self, store: ObjectStore) -> None:
        first = await put(store, "HEAD", b"1")
        second = await store.put_if_match("HEAD", BytesBody(b"2"), etag=first.etag)
        assert second.outcome is Outcome.WON
        assert second.etag not in ("", first.etag)
        stale = await store.put_if_match("HEAD", BytesBody(b"3"), etag=first.etag)
        assert stale.outcome is Outcome.LOST
        assert await read(store, "HEAD") == b"2"
        assert (await store.head("HEAD")).etag == second.etag

    async def test_a_swap_of_nothing_is_lost(self, store: ObjectStore) -> None:
        old = await put(store, "HEAD", b"1")
        await store.delete([Doomed("HEAD")])
        for etag in (old.etag, '"0123456789abcdef0123456789abcdef"'):
            written = await store.put_if_match("HEAD", BytesBody(b"2"), etag=etag)
            assert written.outcome is Outcome.LOST
        assert await keys(store) == []

    async def test_an_unconditional_put_replaces(self, store: ObjectStore) -> None:
        for data in (b"one", b"", b"three"):
            written = await store.put("a", BytesBody(data))
            assert written.outcome is Outcome.WON
            assert await read(store, "a") == data
            assert (await store.head("a")).etag == written.etag

    async def test_of_racing_creators_one_wins_and_its_bytes_stay(self, store: ObjectStore) -> None:
        racers = [b"racer %d" % number for number in range(16)]
        answers = await asyncio.gather(
            *(store.put_if_absent("a", BytesBody(data)) for data in racers)
        )
        winners = [
            data
            for data, written in zip(racers, answers, strict=True)
            if written.outcome is Outcome.WON
        ]
        assert winners == [await read(store, "a")]

    async def test_racing_counters_lose_no_step(self, store: ObjectStore) -> None:
        await put(store, "HEAD", b"0 start")

        async def add_one(name: int) -> None:
            while True:
                got = await store.get("HEAD")
                await asyncio.sleep(0)  # The others read, too, also where nothing ever waits.
                count = int(bytes(got.data).split()[0])
                body = BytesBody(b"%d %d" % (count + 1, name))
                written = await store.put_if_match("HEAD", body, etag=got.stat.etag)
                if written.outcome is Outcome.WON:
                    return

        await asyncio.gather(*(add_one(name) for name in range(12)))
        assert int((await read(store, "HEAD")).split()[0]) == 12

    async def test_bytes_that_changed_on_the_way_are_never_seen(self, store: ObjectStore) -> None:
        old = await put(store, "HEAD", b"old")
        for call in (
            store.put("a", WrongBody(b"data")),
            store.put_if_absent("a", WrongBody(b"data")),
            store.put_if_match("HEAD", WrongBody(b"data"), etag=old.etag),
        ):
            with pytest.raises(StoreBadRequest):
                await call
        assert await keys(store) == ["HEAD"]
        assert await read(store, "HEAD") == b"old"

    async def test_a_copy_goes_to_a_new_key_only(self, store: ObjectStore) -> None:
        await put(store, "a", b"data")
        await put(store, "b/taken", b"mine")
        assert (await store.copy("a", "b/new")).outcome is Outcome.WON
        assert (await store.copy("a", "b/taken")).outcome is Outcome.LOST
        assert await read(store, "b/new") == b"data"
        assert await read(store, "b/taken") == b"mine"

    @pytest.mark.parametrize(
        "key",
        ["", "/a", "a/", "a//b", "a/../b", "./a", "a\0b", "a\nb", "\ud800", "k" * 1025],
        ids=["empty", "root", "slash", "gap", "up", "dot", "nul", "line", "surrogate", "long"],
    )
    async def test_a_key_that_not_every_store_takes_is_refused(
        self, store: ObjectStore, key: str
    ) -> None:
        with pytest.raises(StoreBadRequest):
            await store.put_if_absent(key, BytesBody(b""))
        with pytest.raises(StoreBadRequest):
            await store.get(key)

    # Listing and deleting

    async def test_a_list_is_sorted_by_bytes_and_keeps_to_its_prefix(
        self, store: ObjectStore
    ) -> None:
        names = ["t/b", "t/a/x", "t.a", "t-a", "t/a.x", "t/a0", "u", "t/é", "s/z", "t/a/b/c"]
        for name in names:
            await put(store, name, name.encode())
        assert await keys(store) == sorted(names, key=str.encode)
        assert await keys(store, "t/") == ["t/a.x", "t/a/b/c", "t/a/x", "t/a0", "t/b", "t/é"]
        assert await keys(store, "t/a") == ["t/a.x", "t/a/b/c", "t/a/x", "t/a0"]
        assert await keys(store, "t/a/") == ["t/a/b/c", "t/a/x"]
        assert await keys(store, "nothing/") == []
        assert await keys(store, "t/", after="t/a/b/c") == ["t/a/x", "t/a0", "t/b", "t/é"]
        assert await keys(store, "t/", after="t/a/c") == ["t/a/x", "t/a0", "t/b", "t/é"]
        assert await keys(store, "t/", after="z") == []

    async def test_a_list_tells_what_a_stat_tells(self, store: ObjectStore) -> None:
        await put(store, "a/1", b"one")
        await put(store, "a/2", b"")
        for stat in await stats(store, "a/"):
            exact = await store.head(stat.key)
            assert (stat.size, stat.etag) == (exact.size, exact.etag)
            assert abs(stat.modified_ms - exact.modified_ms) < 1000

    async def test_a_long_list_comes_in_pages(self, store: ObjectStore) -> None:
        names = [f"many/{number:05d}" for number in range(self.many)]
        for start in range(0, len(names), 100):
            await asyncio.gather(*(put(store, name, b"") for name in names[start : start + 100]))
        assert await keys(store, "many/") == names
        assert await keys(store, "many/", after=names[4]) == names[5:]

    async def test_what_is_deleted_is_gone_and_again_is_fine(self, store: ObjectStore) -> None:
        for name in ("a/1", "a/2", "a/3"):
            await put(store, name, b"x")
        doomed = [Doomed("a/1"), Doomed("a/3"), Doomed("a/absent"), Doomed("absent/x")]
        assert not await store.delete(doomed)
        assert not await store.delete(doomed)
        assert not await store.delete([])
        assert await keys(store) == ["a/2"]
        with pytest.raises(NoSuchObject):
            await store.get("a/1")
        await put(store, "a/1", b"again")
        assert await read(store, "a/1") == b"again"

    async def test_too_many_deletes_at_once_are_refused(self, store: ObjectStore) -> None:
        with pytest.raises(StoreBadRequest):
            await store.delete([Doomed(f"a/{number}") for number in range(1001)])

    # Multipart uploads

    async def test_an_upload_is_seen_when_it_is_complete(self, store: ObjectStore) -> None:
        pieces = [b"a" * PART_BYTES, b"b" * (PART_BYTES + 7), b"end"]
        whole = b"".join(pieces)
        upload = await store.begin_upload("big/one")
        parts = await put_parts(store, upload, pieces)
        assert [(each.number, each.size) for each in parts] == [
            (number, len(data)) for number, data in enumerate(pieces, start=1)
        ]
        assert await keys(store) == []
        written = await store.complete_upload(upload, parts, crc32c=crc32c(whole))
        assert written.outcome is Outcome.WON
        assert await read(store, "big/one") == whole
        assert (await store.head("big/one")).etag == written.etag
        assert await uploads(store) == []

    async def test_a_part_may_be_put_again_and_the_last_one_counts(
        self, store: ObjectStore
    ) -> None:
        upload = await store.begin_upload("big")
        await store.put_part(upload, 1, BytesBody(b"wrong"))
        part = await store.put_part(upload, 1, BytesBody(b"right"))
        await store.complete_upload(upload, [part], crc32c=crc32c(b"right"))
        assert await read(store, "big") == b"right"

    async def test_an_upload_does_not_overwrite(self, store: ObjectStore) -> None:
        upload = await store.begin_upload("taken")
        parts = await put_parts(store, upload, [b"late"])
        await put(store, "taken", b"first")
        written = await store.complete_upload(upload, parts, crc32c=crc32c(b"late"))
        assert written.outcome is Outcome.LOST
        assert await read(store, "taken") == b"first"
        await store.abort_upload(upload)
        assert await uploads(store) == []

    async def test_a_wrong_part_and_a_wrong_whole_are_refused(self, store: ObjectStore) -> None:
        upload = await store.begin_upload("big")
        with pytest.raises(StoreBadRequest):
            await store.put_part(upload, 1, WrongBody(b"data"))
        part = await store.put_part(upload, 1, BytesBody(b"data"))
        with pytest.raises(StoreBadRequest):
            await store.complete_upload(upload, [part], crc32c=crc32c(b"other"))
        with pytest.raises(StoreBadRequest):
            await store.complete_upload(upload, [part._replace(number=2)], crc32c=crc32c(b"data"))
        assert await keys(store) == []

    async def test_an_aborted_upload_is_gone_and_again_is_fine(self, store: ObjectStore) -> None:
        upload = await store.begin_upload("big")
        parts = await put_parts(store, upload, [b"data"])
        assert await uploads(store) == [("big", upload.id)]
        await store.abort_upload(upload)
        await store.abort_upload(upload)
        assert await uploads(store) == []
        with pytest.raises(NoSuchObject):
            await store.put_part(upload, 1, BytesBody(b"data"))
        written = await store.complete_upload(upload, parts, crc32c=crc32c(b"data"))
        assert written.outcome is Outcome.LOST
        assert await keys(store) == []

    async def test_uploads_are_listed_below_their_prefix(self, store: ObjectStore) -> None:
        one = await store.begin_upload("a/1")
        again = await store.begin_upload("a/1")
        other = await store.begin_upload("b/1")
        assert one.id != again.id
        assert set(await uploads(store, "a/")) == {("a/1", one.id), ("a/1", again.id)}
        assert await uploads(store, "b/") == [("b/1", other.id)]
        begun = [each.begun_ms async for page in store.list_uploads("b/") for each in page]
        assert begun[0] > 1_600_000_000_000

    async def test_closing_twice_is_fine(self, store: ObjectStore) -> None:
        await store.close()
        await store.close()
