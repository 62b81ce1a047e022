"""In which order an epoch is read. Every rank computes the same order, and takes its own share of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler

import fodder
from fodder._fodder import Node, Plan
from fodder.torch._dataset import ItemDataset
from fodder.torch._rank import job_name, rank_and_world
from fodder.torch._seat import Seat

_Ids = np.ndarray[Any, np.dtype[np.uint32]]
_Floats = np.ndarray[Any, np.dtype[np.float64]]

# Ids that are told to the node in one message.
_TOLD = 1024


class EpochSampler(DistributedSampler[int]):
    """Every item once an epoch, shuffled by a keyed permutation that the node computes too.

        sampler = EpochSampler(dataset, seed=0)
        loader = torch.utils.data.DataLoader(dataset, batch_size=256, sampler=sampler, num_workers=8)

    The node is told the plan, which costs a hundred bytes at any size, and fetches ahead of the job. Each pass is the
    next epoch; `set_epoch` says which. Of several ranks each yields its own share: what does not divide is padded with
    items of the beginning (`uneven="pad"`, the default), dropped (`"drop"`), or makes some ranks' shares one longer
    (`"exact"`). With `shuffle=False` the order is that of the ids.

    In a `DataLoader` an id counts as consumed once it is taken from the sampler. `fodder.torch.Loader` counts what the
    training loop took.

    It is a `DistributedSampler`, so that Lightning does not put one of its own in its place. Accelerate shares out the
    batches of every `DataLoader`: there give a `Loader`, which it leaves alone, or `rank=0, world=1` here.
    """

    def __init__(
        self,
        dataset: ItemDataset | fodder.Dataset,
        *,
        seed: int = 0,
        shuffle: bool = True,
        rank: int | None = None,
        world: int | None = None,
        uneven: str = "pad",
        job: str | None = None,
        publish: bool = True,
    ) -> None:
        source = dataset.dataset if isinstance(dataset, ItemDataset) else dataset
        self.rank, self.world = rank_and_world(rank, world)
        super().__init__(source, self.world, self.rank, shuffle, seed, uneven == "drop")
        self.dataset: fodder.Dataset = source
        self.uneven = uneven
        self._publish, self._name = publish, job
        self._seat = Seat(self, source, self.rank)
        self._next = 0
        # Of the last pass, until the next is spoken of: a DataLoader has taken all ids before its loop is at the end.
        self._begun: Plan | None = None

    def set_epoch(self, epoch: int) -> None:
        """The next pass is this epoch."""
        self._next, self._begun = epoch, None

    def order(self, epoch: int) -> dict[str, Any]:
        """How the epoch is ordered: by a seed, or by a list of ids. The same on every rank."""
        if self.shuffle:
            return {"seed": self.seed}
        return {"ids": np.arange(len(self.dataset), dtype=np.uint32).tobytes()}

    def weights_of(self, ids: list[int]) -> torch.Tensor:
        """How much each of these samples should count in a mean over what was sampled."""
        return torch.ones(len(ids))

    def plan(self, epoch: int) -> Plan:
        """The epoch, shared out to the ranks."""
        return self._dealt(epoch, self.order(epoch))

    def _dealt(self, epoch: int, order: dict[str, Any]) -> Plan:
        items = len(self.dataset)
        return Plan(self.dataset.snapshot, items, epoch, world=self.world, uneven=self.uneven, **order)

    def _most(self, epoch: int) -> int:
        """How many ids this rank has in an epoch, at most. Plans nothing: it is asked early, and by one rank alone."""
        return self._dealt(epoch, {"seed": self.seed}).share_of(self.rank)

    def __len__(self) -> int:
        """How many ids this rank has in the pass that was begun last; before one, as many as the next has at most."""
        return self._most(self._next) if self._begun is None else self._begun.share_of(self.rank)

    def __iter__(self) -> Iterator[int]:
        if self.world > 1 and _is_shared_out_above():
            raise ValueError(
                "Accelerate shares out the batches of a DataLoader, and this sampler's are one rank's already: "
                "give Accelerate a fodder.torch.Loader, or this sampler rank=0, world=1"
            )
        epoch = self._next
        plan = self.plan(epoch)
        self._next, self._begun = epoch + 1, plan
        self._begin(epoch)
        for start in range(0, plan.share_of(self.rank), _TOLD):
            packed, pads = plan.ids(self.rank, start, _TOLD)
            ids = np.frombuffer(packed, np.uint32)
            yield from ids.tolist()
            self._consumed(epoch, ids[np.frombuffer(pads, np.uint8) == 0])

    def _begin(self, epoch: int) -> None:
        """Tells the node what will be asked for. It is a hint: without it everything is as right, and slower."""
        if not self._publish:
            return

        def begin(node: Node) -> int:
            name, title = self.dataset.name, str(self._name)
            job, _, _ = node.introduce(name, title, world=self.world, uneven=self.uneven)
            node.begin_epoch(name, job, self.rank, epoch, **self.order(epoch))
            return job

        try:
            if self._name is None:
                self._name = job_name(self.world)
            self._seat.job = self._seat.reach(begin)
        except (fodder.FodderError, ValueError):
            self._seat.job = None

    def _consumed(self, epoch: int, ids: _Ids) -> None:
        if self._seat.job is None:
            return
        try:
            self._seat.node.consumed(self.dataset.name, self._seat.job, epoch, ids.tobytes())
        except fodder.FodderError:
            self._seat.job = None

    def close(self) -> None:
        """Tells the node that this rank is done; when all are, the job is."""
        self._seat.leave()

    # Not `state_dict`: torchdata's StatefulDataLoader would take it for a place in the epoch, and not skip by itself.

    def _state(self) -> dict[str, Any]:
        """What a loader keeps of it for a resume."""
        return {"epoch": self._next, "seed": self.seed}

    def _load_state(self, state: dict[str, Any]) -> None:
        self._next, self._begun, self.seed = state["epoch"], None, state["seed"]


def _is_shared_out_above() -> bool:
    """Whether Accelerate's shard of a batch sampler asks: nothing else tells a sampler of it."""
    frame = sys._getframe(1)
    for _ in range(8):
        if frame.f_back is None:
            return False
        frame = frame.f_back
        if type(frame.f_locals.get("self")).__name__ == "BatchSamplerShard":
            return True
    return False


class ImportanceSampler(EpochSampler):
    """Samples by importance, so that the cache and the GPU see more of what still teaches something.

    The first `warm_up` epochs, and then every `reuse_factor`-th, have every item. The others keep an item with
    probability max(floor, percentile(loss) ** beta), in shuffled order; one whose loss is not known is kept.
    `weights_of` gives 1 / (N · p), p being the share of the draws that an item is expected to have: the mean of
    weighted losses over what is sampled estimates the mean over all without bias. `clip` bounds the weights, at the
    cost of a bias.

    Losses come by `update`, or through `Loader.report`. Ranks share theirs through `torch.distributed` when an epoch is
    planned; with `share=False` each rank must be told all of them. A loss that is no number is passed over.
    """

    def __init__(
        self,
        dataset: ItemDataset | fodder.Dataset,
        *,
        warm_up: int = 1,
        reuse_factor: int = 3,
        beta: float = 0.33,
        floor: float = 0.05,
        clip: float | None = None,
        share: bool = True,
        **how: Any,
    ) -> None:
        super().__init__(dataset, **how)
        if not (beta >= 0 and 0 < floor <= 1 and reuse_factor >= 1 and warm_up >= 0):
            raise ValueError(
                "beta and warm_up must be at least 0, reuse_factor at least 1, and floor above 0 and at most 1"
            )
        self.warm_up, self.reuse_factor, self.beta, self.floor = warm_up, reuse_factor, beta, floor
        self.clip, self._share = clip, share
        self.losses: _Floats = np.full(len(self.dataset), np.nan)
        self.ignored = 0
        self._fresh: list[tuple[_Ids, _Floats]] = []
        self._planned: tuple[int, dict[str, Any], _Floats | None] | None = None

    def update(self, ids: Any, losses: Any) -> None:
        """These items had these losses. They take effect when the next epoch is planned."""
        index = np.asarray(ids, dtype=np.uint32).reshape(-1)
        values = np.asarray(losses, dtype=np.float64).reshape(-1)
        if index.shape != values.shape:
            raise ValueError(f"{len(values)} losses for {len(index)} items: give one for each")
        good = np.isfinite(values)
        self.ignored += int((~good).sum())
        self._fresh.append((index[good], values[good]))

    def is_full(self, epoch: int) -> bool:
        """Whether an epoch has every item."""
        return epoch < self.warm_up or epoch % self.reuse_factor == 0

    def chances(self) -> _Floats:
        """The probability with which each item is kept in an epoch that is not full."""
        known = np.sort(self.losses[~np.isnan(self.losses)])
        if not len(known):
            return np.ones(len(self.losses))
        rank = np.searchsorted(known, self.losses, side="right") / len(known)
        return np.where(np.isnan(self.losses), 1.0, np.clip(rank, 0.0, 1.0) ** self.beta).clip(self.floor, 1.0)

    def order(self, epoch: int) -> dict[str, Any]:
        if self._planned is None or self._planned[0] != epoch:
            self._take_in()
            self._planned = (epoch, *self._select(epoch))
        return self._planned[1]

    def _most(self, epoch: int) -> int:
        is_planned = self._planned is not None and self._planned[0] == epoch
        return self.plan(epoch).share_of(self.rank) if is_planned else super()._most(epoch)

    def weights_of(self, ids: list[int]) -> torch.Tensor:
        chances = self._planned[2] if self._planned else None
        if chances is None:
            return torch.ones(len(ids))
        weights = chances.sum() / (len(chances) * chances[np.asarray(ids)])
        return torch.from_numpy(weights if self.clip is None else weights.clip(max=self.clip)).float()

    def _select(self, epoch: int) -> tuple[dict[str, Any], _Floats | None]:
        if self.is_full(epoch):
            return {"seed": self.seed}, None
        chances = self.chances()
        items = len(self.dataset)
        packed, _ = Plan(self.dataset.snapshot, items, epoch, seed=self.seed).ids(0, 0, items)
        shuffled = np.frombuffer(packed, np.uint32)
        drawn = np.random.default_rng([self.seed & (2**64 - 1), epoch]).random(items)
        return {"ids": shuffled[(drawn < chances)[shuffled]].tobytes()}, chances

    def _take_in(self) -> None:
        """Losses that came since the last epoch was planned, of all ranks, in the same order on each."""
        fresh, self._fresh = self._fresh, []
        if self._share and self.world > 1:
            if not (dist.is_available() and dist.is_initialized()):
                raise ValueError("ranks share losses through torch.distributed: initialise it, or set share=False")
            everyone: list[Any] = [None] * self.world
            dist.all_gather_object(everyone, fresh)
            fresh = [report for one in everyone for report in one]
        for ids, values in fresh:
            self.losses[ids] = values

    def _state(self) -> dict[str, Any]:
        return {
            **super()._state(),
            "losses": self.losses.copy(),
            "fresh": list(self._fresh),
            "planned": self._planned,
        }

    def _load_state(self, state: dict[str, Any]) -> None:
        super()._load_state(state)
        self.losses, self._fresh = np.array(state["losses"]), list(state["fresh"])
        self._planned = state["planned"]
