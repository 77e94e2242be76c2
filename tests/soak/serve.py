"""`tierlog`, in whose process the tier's weeks are minutes: `python -m tests.soak.serve serve ...`.

Orphans are looked for once a week and bytes are read once in 90 days; no setting of a node says so,
and none should. A soak cannot wait for that. The periods are read from `SOAK_TEMPO`; everything
else is the program itself.
"""

import os
from dataclasses import replace

from tests.soak.tempo import Tempo, from_json
from tierlog.broker import tiering
from tierlog.cli import main
from tierlog.cold import orphanfinder
from tierlog.cold.scrubsettings import ScrubSettings
from tierlog.cold.tiersettings import TierSettings
from tierlog.config import NodeSettings
from tierlog.table import keeper
from tierlog.table.settings import TableSettings

VARIABLE = "SOAK_TEMPO"


def quicken(tempo: Tempo) -> None:
    usual = tiering.tier_settings_of

    def quick(settings: NodeSettings) -> TierSettings:
        return replace(
            usual(settings),
            check_interval_ms=tempo.check_interval_ms,
            backoff_ms_min=tempo.backoff_ms_min,
            backoff_ms_max=tempo.backoff_ms_max,
            sweep_retry_ms=tempo.sweep_retry_ms,
            orphan_interval_ms=tempo.orphan_interval_ms,
            orphan_age_ms=tempo.orphan_age_ms,
            orphan_sighting_ms=tempo.orphan_age_ms,
            upload_age_ms=tempo.orphan_age_ms,
        )

    tiering.tier_settings_of = quick
    orphanfinder.REQUESTS_PER_SECOND = tempo.orphan_requests_per_second
    scrubbing = ScrubSettings(
        manifest_period_ms=tempo.scrub_manifests_ms,
        object_period_ms=tempo.scrub_manifests_ms,
        byte_period_ms=tempo.scrub_bytes_ms,
        probe_period_ms=tempo.scrub_bytes_ms,
        sum_period_ms=tempo.check_interval_ms,
        save_period_ms=tempo.scrub_manifests_ms,
    )
    tiering.scrub_settings_of = lambda settings: scrubbing
    quicken_tables(tempo)


def quicken_tables(tempo: Tempo) -> None:
    usual = tiering.table_settings_of

    def quick(settings: NodeSettings) -> TableSettings:
        return replace(
            usual(settings),
            convert_segments_max=1,  # As many files as can be, so that there is what to merge.
            merge_files_min=tempo.table_merge_files,
            retry_ms=tempo.table_retry_ms,
            interval_ms=tempo.table_interval_ms,
            follow_interval_ms=tempo.table_interval_ms,
            orphan_interval_ms=tempo.orphan_interval_ms,
            orphan_age_ms=tempo.orphan_age_ms,
        )

    tiering.table_settings_of = quick
    keeper.BACKOFF_MS_MIN = tempo.backoff_ms_min
    keeper.BACKOFF_MS_MAX = tempo.backoff_ms_max


if __name__ == "__main__":
    quicken(from_json(os.environ[VARIABLE]))
    main()
