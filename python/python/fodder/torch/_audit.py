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

    @property
    def exact(self) -> bool:
        """Whether every planned item was taken exactly once."""
        return self.duplicates == 0 and self.omissions == 0
