"""What a loader reads: items of one dataset of a node, or any other map-style dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch.utils.data
from torch.utils.data import ConcatDataset, IterableDataset, Subset

import fodder
from fodder.torch._dataset import ItemDataset

Ids = np.ndarray[Any, np.dtype[np.uint32]]


class LocalSource:
    """Stands in for a `fodder.Dataset` in plans: it has a length, and no node knows it."""

    name = "local"

    class client:
        """No node: a rank of such a loader never joins a job."""

        _settings = (("",), 0.0, 0.0, ())

    def __init__(self, items: int) -> None:
        self._items = items
        self.snapshot = local_snapshot(items)

    def __len__(self) -> int:
        return self._items


class LocalDataset:
    """A map-style dataset through which the items of a node cannot be seen. It is read by index, without a job."""

    def __init__(self, samples: Any) -> None:
        self.samples = samples
        self.dataset = LocalSource(len(samples))

    def __len__(self) -> int:
        return len(self.samples)

    def read(self, index: list[int]) -> list[Any]:
        if hasattr(self.samples, "__getitems__"):
            return list(self.samples.__getitems__(index))
        return [self.samples[place] for place in index]


def local_snapshot(items: int) -> str:
    """A snapshot id for a plan over the places of a list."""
    return f"{items:032x}"


def resolve(dataset: Any) -> tuple[ItemDataset | LocalDataset, Ids | None]:
    """The dataset that is read, and which of its items, in which order; None for all of them."""
    if isinstance(dataset, IterableDataset):
        raise TypeError(
            f"a Loader plans an epoch by index, and {type(dataset).__name__} is an IterableDataset: "
            "give it to torch.utils.data.DataLoader"
        )
    seen = _see_through(dataset)
    if seen is not None:
        return seen
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise TypeError(
            f"{type(dataset).__name__} has no __getitem__ and __len__: give a Loader a fodder.torch.ItemDataset, "
            "ImageFolder or TarDataset, a Subset of one, or another map-style dataset"
        )
    return LocalDataset(dataset), None


def _see_through(dataset: Any) -> tuple[ItemDataset, Ids | None] | None:
    if isinstance(dataset, fodder.Dataset):
        return ItemDataset(dataset), None
    if isinstance(dataset, ItemDataset):
        return dataset, None
    # A subclass may do more than select.
    if type(dataset) is Subset:
        inner = _see_through(dataset.dataset)
        return None if inner is None else (inner[0], _all_of(inner)[np.asarray(dataset.indices, dtype=np.int64)])
    if type(dataset) is ConcatDataset:
        parts = [_see_through(part) for part in dataset.datasets]
        first = parts[0]
        if first is not None and all(part is not None and part[0] is first[0] for part in parts):
            return first[0], np.concatenate([_all_of(part) for part in parts if part is not None])
    return None


def _all_of(seen: tuple[ItemDataset, Ids | None]) -> Ids:
    return np.arange(len(seen[0]), dtype=np.uint32) if seen[1] is None else seen[1]


def is_unshared(sampler: Any) -> bool:
    """Whether a sampler yields the whole epoch, and not one rank's share of it."""
    return not (isinstance(sampler, torch.utils.data.DistributedSampler) and sampler.num_replicas > 1)
