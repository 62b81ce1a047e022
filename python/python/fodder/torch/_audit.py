"""What an epoch came to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Audit:
    """What an epoch came to, for this rank."""

    epoch: int
    planned: int
    consumed: int
    duplicates: int
    omissions: int
    pads: int
    substitutions: int
    dropped: int = 0
    """Items of an incomplete last batch, which `drop_last` leaves out. They are not planned, and no omissions."""

    @property
    def exact(self) -> bool:
        """Whether every planned item was taken exactly once."""
        return self.duplicates == 0 and self.omissions == 0
