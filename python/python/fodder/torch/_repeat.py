"""Finds loaders that are made anew for each epoch, and therefore repeat the order of the first."""

from __future__ import annotations

import warnings
from collections.abc import Hashable

# Orders that were passed over in this process, and whether their repetition was reported.
_passed: dict[Hashable, bool] = {}
_MOST_KEYS = 1024


def note_pass(key: Hashable) -> None:
    """A loader has passed over its first epoch."""
    if len(_passed) < _MOST_KEYS:
        _passed.setdefault(key, False)


def warn_of_repeat(key: Hashable, name: str, seed: int) -> None:
    """Warns once if another loader had the same first epoch."""
    if _passed.get(key) is False:
        _passed[key] = True
        warnings.warn(
            f"another Loader has already passed over epoch 0 of {name!r} with seed {seed}, and this one repeats its "
            "order: make one Loader for all epochs, or call set_epoch(epoch) on each",
            RuntimeWarning,
            stacklevel=5,
        )
