"""Which length a progress bar needs: tqdm counts the batches of a pass, and trainers those of an epoch."""

from __future__ import annotations

from types import FrameType


def initial_of_progress_bar(caller: FrameType) -> int | None:
    """The value from which a tqdm bar counts, if the caller is one; else None."""
    if str(caller.f_globals.get("__name__", "")).partition(".")[0] != "tqdm":
        return None
    initial = caller.f_locals.get("initial", 0)
    return initial if isinstance(initial, int) else 0
