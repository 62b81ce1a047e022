"""How samples become batches, from arguments that have the meaning that they have in torch's DataLoader."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch.utils.data import BatchSampler


class Batching(NamedTuple):
    """Batches of `batch_size` samples of `sampler`; or the `batches` of a batch sampler of the user's own."""

    batch_size: int | None
    sampler: Any
    batches: Any
    drop_last: bool

    @property
    def is_single(self) -> bool:
        """Whether the loop is given single samples."""
        return self.batch_size is None and self.batches is None


def batching_of(batch_size: int | None, shuffle: bool | None, sampler: Any, batches: Any, drop_last: bool) -> Batching:
    """Checks the arguments of a loader that exclude each other."""
    if batches is not None:
        if batch_size not in (1, None) or shuffle or sampler is not None or drop_last:
            raise ValueError("batch_sampler excludes batch_size, shuffle, sampler and drop_last")
        if type(batches) is not BatchSampler:
            return Batching(None, None, batches, False)
        return Batching(batches.batch_size, batches.sampler, None, batches.drop_last)
    if batch_size is None and drop_last:
        raise ValueError("batch_size=None gives single samples: drop_last has no incomplete batch to leave out")
    if batch_size is not None and batch_size < 1:
        raise ValueError("batch_size must be at least 1")
    return Batching(batch_size, sampler, None, drop_last)
