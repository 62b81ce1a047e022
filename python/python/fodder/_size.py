"""Numbers as people read and write them."""

from __future__ import annotations

_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]


def human(count: float) -> str:
    """Bytes, in the largest unit that leaves a number of at least 1."""
    unit = 0
    while count >= 1024 and unit + 1 < len(_UNITS):
        count /= 1024
        unit += 1
    return f"{count:.0f} B" if unit == 0 else f"{count:.1f} {_UNITS[unit]}"
