"""An epoch as a list of indices: of a subset, of a torch sampler, or of a batch sampler."""

from __future__ import annotations

import operator
from typing import Any, cast

import numpy as np
import torch.distributed as dist

import fodder
from fodder._fodder import Plan
from fodder.torch._dataset import ItemDataset
from fodder.torch._sampler import EpochSampler
from fodder.torch._source import Ids, LocalDataset, is_unshared, local_snapshot


class ListedSampler(EpochSampler):
    """Orders what a `Subset` selects, or what a torch sampler or batch sampler yields.

    `index` maps places in the dataset that the user gave to ids; without it they are the same. An index that occurs
    several times in an epoch (a sampler with replacement) is read as often, without the node's plan.
    """

    def __init__(
        self,
        dataset: fodder.Dataset,
        index: Ids | None = None,
        sampler: Any = None,
        batches: Any = None,
        *,
        is_local: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(dataset, publish=False, **kwargs)
        self._index, self._sampler, self._batch_sampler, self._is_local = index, sampler, batches, is_local
        self._places = len(dataset) if index is None else len(index)
        self._planned: tuple[int, dict[str, Any]] | None = None
        given = sampler if batches is None else batches
        if not is_unshared(given):
            raise ValueError(
                "a Loader shares an epoch out to the ranks itself: leave out the DistributedSampler, and give the "
                "Loader shuffle and seed (and rank and world, unless torch.distributed is initialised)"
            )
        if given is not None and not hasattr(given, "__len__"):
            raise TypeError(f"{type(given).__name__} has no __len__: a Loader plans an epoch before it begins")
        if batches is not None and self.world > 1:
            raise ValueError(
                "batches of a batch sampler cannot be shared out to ranks: give sampler and batch_size, or read with "
                "torch.utils.data.DataLoader"
            )

    def order(self, epoch: int) -> dict[str, Any]:
        if self._planned is None or self._planned[0] != epoch:
            self._planned = epoch, self._list(epoch)
        return self._planned[1]

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        # A sampler that draws has another order the next time, also for the same epoch.
        self._planned = None

    def _load_state(self, state: dict[str, Any]) -> None:
        super()._load_state(state)
        self._planned = None

    def _most(self, epoch: int) -> int:
        if self._planned is not None and self._planned[0] == epoch:
            order = self._planned[1]
            items = len(order["ids" if "ids" in order else "index"]) // 4
        else:
            items = self._places if self._sampler is None else len(self._sampler)
        places = Plan(local_snapshot(items), items, epoch, world=self.world, uneven=self.uneven, seed=0)
        return places.share_of(self.rank)

    def _list(self, epoch: int) -> dict[str, Any]:
        offsets = None
        if self._batch_sampler is not None:
            _set_epoch(self._batch_sampler, epoch)
            batches = [self._checked(batch) for batch in self._batch_sampler]
            offsets = np.cumsum([0, *map(len, batches)]).tolist()
            places = np.concatenate(batches) if batches else np.zeros(0, np.uint32)
        elif self._sampler is not None:
            _set_epoch(self._sampler, epoch)
            places = self._agreed(self._checked(self._sampler))
        elif self.shuffle:
            permuted = Plan(local_snapshot(self._places), self._places, epoch, seed=self.seed)
            places = np.frombuffer(permuted.ids(0, 0, self._places)[0], np.uint32)
        else:
            places = np.arange(self._places, dtype=np.uint32)
        ids = np.ascontiguousarray(places if self._index is None else self._index[places], dtype=np.uint32)
        if offsets is not None:
            return {"index": ids.tobytes(), "offsets": offsets}
        repeats = self._is_local or len(np.unique(ids)) < len(ids)
        return {"index" if repeats else "ids": ids.tobytes()}

    def _checked(self, given: Any) -> Ids:
        try:
            places = np.array([operator.index(place) for place in given], dtype=np.int64).reshape(-1)
        except TypeError:
            raise TypeError(
                "the sampler yields something else than indices: give one that yields lists as batch_sampler"
            ) from None
        if len(places) and not (places.min() >= 0 and places.max() < self._places):
            wrong = places.min() if places.min() < 0 else places.max()
            raise IndexError(f"the sampler yields index {wrong}, and the dataset has {self._places} samples")
        return places.astype(np.uint32)

    def _agreed(self, places: Ids) -> Ids:
        """The list of the first rank: samplers draw differently on each."""
        if self.world == 1:
            return places
        if not (dist.is_available() and dist.is_initialized()):
            raise ValueError(
                "ranks agree on what a sampler draws through torch.distributed: initialise it, or leave the sampler "
                "out and give the Loader shuffle and seed"
            )
        everyone: list[Any] = [None] * self.world
        dist.all_gather_object(everyone, places if self.rank == 0 else None)
        return everyone[0]


def _set_epoch(sampler: Any, epoch: int) -> None:
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)


def sampler_for(
    items: ItemDataset | LocalDataset,
    index: Ids | None,
    sampler: Any,
    batches: Any,
    shuffle: bool | None,
    **kwargs: Any,
) -> EpochSampler:
    """The sampler of a loader, from what the user gave."""
    if sampler is not None and shuffle:
        raise ValueError("sampler and shuffle exclude each other, as in torch.utils.data.DataLoader: give one of them")
    kwargs["shuffle"] = shuffle is None or bool(shuffle)
    is_local, source = isinstance(items, LocalDataset), cast("fodder.Dataset", items.dataset)
    if isinstance(sampler, EpochSampler):
        if index is not None or is_local:
            raise ValueError(
                f"{type(sampler).__name__} orders a whole fodder dataset: give the Loader that dataset, or leave the "
                "sampler out"
            )
        return sampler
    if sampler is None and batches is None and index is None and not is_local:
        return EpochSampler(source, publish=False, **kwargs)
    return ListedSampler(source, index, sampler, batches, is_local=is_local, **kwargs)
