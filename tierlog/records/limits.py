"""How far a batch may unfold. Batches come from anyone: size, ratio and counts are bounded."""

from dataclasses import dataclass

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what one batch may become; checked before the memory is taken."""

    bytes_max: int = 64 * MEBIBYTE
    """Sixty-four times what a batch may have on the wire by default."""

    ratio_max: int = 200
    """Text reaches 10:1, logs of one repeated line 100:1. Beyond that somebody means harm."""

    bytes_free: int = MEBIBYTE
    """The ratio counts only beyond this. Clients bound a batch by its plain size, 1 MiB by default
    (`max.request.size`), so a batch of zeros is legal however well it compresses."""

    record_count_max: int = 1_000_000
    """A decoded record takes about 250 bytes however small it is, so the count is bounded too. A
    batch may hold more if it has as many bytes on the wire."""

    header_count_max: int = 100_000
    """Headers of all records together. An empty one takes 2 bytes, so half a million stand in the
    free MiB and cost a quarter of a second and 40 MB. Real ones have a name and a value, ten bytes
    at least: a hundred thousand fill the free MiB. A batch may hold more if it has as many bytes
    on the wire."""

    def inflated_bytes_max(self, compressed_bytes: int) -> int:
        return min(self.bytes_max, max(self.bytes_free, self.ratio_max * compressed_bytes))


DEFAULT_LIMITS = Limits()
