"""A TABLE and a page that are the same every time, and their bytes as they must be.

    python -m tests.table.golden

writes them anew: only when the format is meant to change, and then its version with it. As
`tests.cold.golden`: canonical JSON, which every tierlog must write, and the compressed bytes of the
day they were written, which every tierlog must read. The Parquet file must be read, not written
again: its bytes change with pyarrow.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

from tests.cold.makers import TOPIC_ID
from tests.table.makers import START_MS, a_file, a_source, a_table
from tierlog.cold import canonical
from tierlog.env import LocalDisk
from tierlog.records.attributes import Codec
from tierlog.records.record import Record, encode_batch
from tierlog.table import codec, jobs
from tierlog.table.keys import page_key
from tierlog.table.manifest import FilePage, Garbage, Skip, Table
from tierlog.table.plans import About, ConvertPlan, Range, RawPart
from tierlog.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs

FOLDER = Path(__file__).parent / "golden"
PLAIN_MAX = 1 << 20


def a_page() -> FilePage:
    return FilePage(
        topic_id=TOPIC_ID, partition=7, files=(a_file(0, 100), a_file(100, 200, dead=3))
    )


def a_manifest() -> Table:
    """Something in every field."""
    page, gone = a_page(), a_file(0, 50, seed=1)
    # As it was packed on that day: another zlib may do otherwise.
    is_kept = (FOLDER / "page.hex").exists()
    data = kept("page.hex") if is_kept else codec.encode_page(page)
    ref = codec.refer(page, key=page_key(start=Offset(0), attempt=255), data=data)
    files = [a_file(200, 300), a_file(350, 400, dead=2)]
    table = a_table([*page.files, *files])
    return replace(
        table,
        pages=(ref,),
        files=tuple(files),
        skips=(Skip(Offset(300), Offset(350), START_MS),),
        garbage=(Garbage(gone.key, "v1", START_MS + 1, gone.size),),
        head_version=9,
    )


def a_parquet_file() -> bytes:
    """Two batches: a key and a null, headers and none, append time and create time."""
    one = encode_batch(
        [
            Record(Offset(5), TimestampMs(START_MS), b"k", b"v", (("h", b"x"), ("n", None))),
            Record(Offset(7), TimestampMs(START_MS + 5), None, None),
        ],
        base_offset=Offset(5),
        leader_epoch=LeaderEpoch(3),
        producer_id=ProducerId(9),
        producer_epoch=ProducerEpoch(1),
        base_sequence=2**31 - 1,
        codec=Codec.ZSTD,
    )
    two = encode_batch(
        [Record(Offset(8), TimestampMs(1), b"", b"w")],
        base_offset=Offset(8),
        leader_epoch=LeaderEpoch(4),
        log_append_time=TimestampMs(START_MS + 9),
    )
    with tempfile.TemporaryDirectory() as folder:
        raw, out = Path(folder) / "raw", Path(folder) / "out"
        raw.write_bytes(one + two)
        wanted = Range(topic="orders", partition=7, start=5, end=9, base=5, next_offset=9)
        source = a_source(5, 9)
        about = About(
            topic="orders", topic_id=TOPIC_ID, partition=7, start=5, end=9, sources=(source,)
        )
        part = RawPart(path=str(raw), size=len(one + two), source=source.key, wanted=wanted)
        jobs.convert(
            LocalDisk(),
            ConvertPlan(parts=(part,), out=str(out), dead_out=f"{out}.dead", about=about),
        )
        return out.read_bytes()


def build() -> dict[str, bytes]:
    return {
        "TABLE.hex": codec.encode_table(a_manifest()),
        "page.hex": codec.encode_page(a_page()),
    }


def plain(data: bytes) -> bytes:
    return canonical.decompress(data, key="golden", size_max=PLAIN_MAX)


def kept(name: str) -> bytes:
    return bytes.fromhex((FOLDER / name).read_text())


def kept_plain(name: str) -> bytes:
    return (FOLDER / name).with_suffix(".json").read_bytes().rstrip(b"\n")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, data in build().items():
        (FOLDER / name).write_text(data.hex() + "\n")
        (FOLDER / name).with_suffix(".json").write_bytes(plain(data) + b"\n")
    (FOLDER / "rows.hex").write_text(a_parquet_file().hex() + "\n")


if __name__ == "__main__":
    main()
