"""How a job wants to be answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union


@dataclass(frozen=True)
class Strict:
    """What was planned, in the order planned."""

    def _settings(self) -> dict[str, Any]:
        return {"mode": "strict"}


@dataclass(frozen=True)
class Reorder:
    """Each planned item exactly once an epoch, cached ones first, none more than `window` places before its own."""

    window: int

    def _settings(self) -> dict[str, Any]:
        return {"mode": "reorder", "window": self.window}


@dataclass(frozen=True)
class Approx:
    """A cached item may stand in for a missing one: at most `max_fraction` of an epoch, no item more than `max_repeats`
    times, and with `same_class` only for one of its own class."""

    max_fraction: float = 0.1
    same_class: bool = True
    max_repeats: int = 2

    def _settings(self) -> dict[str, Any]:
        return {
            "mode": "approx",
            "max_fraction": self.max_fraction,
            "same_class": self.same_class,
            "max_repeats": self.max_repeats,
        }


Mode = Union[Strict, Reorder, Approx]


def mode_of(mode: Mode | str, items: int) -> Mode:
    """A mode by its name, with the usual bounds."""
    if not isinstance(mode, str):
        return mode
    if mode == "strict":
        return Strict()
    if mode == "reorder":
        return Reorder(max(1, items // 20))
    if mode == "approx":
        return Approx()
    raise ValueError(f"unknown mode {mode!r}: use strict, reorder or approx")
