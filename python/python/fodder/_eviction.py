"""The result of `Dataset.evict`: what was freed, and what was not and why."""

from __future__ import annotations

from dataclasses import dataclass, field

from fodder._size import human


@dataclass(frozen=True)
class Eviction:
    """What an eviction freed, and what still occupies space. Prints well; `remaining` explains it in sentences."""

    bytes: int
    """Bytes on disk that were freed."""
    pieces: int
    """Pieces that left the cache."""
    leased_files: int = 0
    """Evicted files that other processes have open: their space is freed when they are closed."""
    leased_bytes: int = 0
    """Bytes on disk of those files."""
    staged_pieces: int = 0
    """Pieces that are staged in the node's memory for jobs."""
    staged_bytes: int = 0
    """Bytes of memory of those pieces."""
    fetching_pieces: int = 0
    """Pieces that are being fetched: they are cached when they arrive."""
    fetching_bytes: int = 0
    """Bytes of those pieces."""
    jobs: list[str] = field(default_factory=list)
    """Open jobs. Each fetches its planned items again when it requests its next batch."""

    @property
    def remaining(self) -> list[str]:
        """One sentence for each reason why space is not free, or will not stay free."""
        reasons = []
        if self.leased_files:
            reasons.append(
                f"{human(self.leased_bytes)} in {self.leased_files} evicted files that a mount or a client has open; "
                "freed when they are closed"
            )
        if self.staged_pieces:
            reasons.append(
                f"{human(self.staged_bytes)} of memory, {self.staged_pieces} pieces staged for jobs; "
                "freed when the jobs have read them or end"
            )
        if self.fetching_pieces:
            reasons.append(
                f"{human(self.fetching_bytes)}, {self.fetching_pieces} pieces that are being fetched now; "
                "evict again to drop them"
            )
        if self.jobs:
            reasons.append(
                f"open jobs: {', '.join(self.jobs)}; with its next batch a job fetches its planned items again: "
                "close its loader to keep the space free"
            )
        return reasons

    def __repr__(self) -> str:
        freed = f"evicted {self.pieces} pieces, {human(self.bytes)} freed"
        return "\n".join([freed, *(f"not freed: {reason}" for reason in self.remaining)])
