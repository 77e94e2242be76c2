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


if __name__ == "__main__":
    quicken(from_json(os.environ[VARIABLE]))
    main()
