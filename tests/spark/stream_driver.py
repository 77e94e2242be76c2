"""A driver of its own that streams a topic into Parquet files, for tests that kill it.

    python -m tests.spark.stream_driver STORE TOPIC FOLDER

Ends with 0 once the sink has what there is.
"""

import sys
from pathlib import Path

from tests.spark.session import session
from tests.spark.test_streaming import SLOW_PYTHON, STARTS_MAX, started

OFFSETS_A_BATCH = "20"


def main(store: str, topic: str, folder: Path) -> None:
    # Jars that are not needed take seconds, and so does a second Python worker.
    confs = {"spark.jars": "", "spark.master": "local[1]"}
    with session(folder, **confs) as spark:
        options = {"store": store, "subscribe": topic, "startingOffsets": "earliest"}
        options["maxOffsetsPerTrigger"] = OFFSETS_A_BATCH
        found = spark.readStream.format("tierlog").options(**options).load()
        for _ in range(STARTS_MAX):
            query = started(found, folder)
            try:
                query.processAllAvailable()
            except Exception as error:
                if SLOW_PYTHON not in str(error):
                    raise
            else:
                return
            finally:
                query.stop()
    raise SystemExit(f"Spark's Python did not start in {STARTS_MAX} tries")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
