"""The loader: dataset, sampler, job, ledger and audit in one.

Workers ask the node for a batch of the job's plan by its number, so that the node may answer with what is cached. The
main process alone knows what the training loop took, and keeps that in a ledger of its own: a checkpoint needs no node,
and a node that was killed loses nothing. Where several nodes were named, a rank whose node is gone shows another one
what it has consumed, and goes on there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Any, Callable, cast

import numpy as np
import torch
import torch.utils.data
from torch.utils.data import default_collate, default_convert

import fodder
from fodder import errors
from fodder._fodder import Plan
from fodder.torch._ahead import take_ahead
from fodder.torch._audit import Audit
from fodder.torch._batching import batching_of
from fodder.torch._epoch import Epoch, batches_in, planned_over
from fodder.torch._fetch import Fetch, OnlySample, Parcel, Tickets, as_it_is
from fodder.torch._job import Job
from fodder.torch._listed import sampler_for
from fodder.torch._mode import Mode, Strict, mode_of
from fodder.torch._repeat import note_pass, warn_of_repeat
from fodder.torch._seat import Seat
from fodder.torch._source import LocalDataset, resolve
from fodder.torch._told import Told
from fodder.torch._weights import sample_weights

# How often a rank goes to another node, or to its own that was restarted, without having been given anything.
_MOVES = 8


class Loader:
    """Batches for a training loop, from a cache that knows the loop's plan.

        loader = Loader(dataset, batch_size=256, num_workers=8)
        for epoch in range(90):
            for images, targets in loader:
                losses = criterion(model(images), targets)       # one for each sample
                (losses * loader.weights).mean().backward()
                loader.report(losses=losses)

    Each pass is an epoch, shuffled by `seed` unless `shuffle=False`. Arguments of `torch.utils.data.DataLoader` have
    its names, order and meaning. `dataset` is an `ItemDataset`, a `Subset` of one (`random_split`), or any other
    map-style dataset, which is read by index in strict mode, without the node's prefetching of the plan. `sampler` is
    an `EpochSampler`, an `ImportanceSampler`, or a torch sampler of the whole epoch. `mode` is `"strict"`,
    `"reorder"` (each item once, cached ones first) or `"approx"` (cached items may stand in), or an object of these
    names with its bounds. Ranks share an epoch (see `EpochSampler` for `uneven`); `rank` and `world` come from
    `torch.distributed` or the launcher unless they are given. `job` is what `fodder jobs` shows; ranks must agree on
    it, and runs that are not one must not. A rank that is alone and ranks of `torch.distributed` draw one. `attempt` is
    a number that all ranks of one start give and those of no other start do, for a job that resumes; a rank that is
    alone, ranks of `torch.distributed` and a Slurm job have one without it.

    While the loop runs: `ids` and `weights` are those of the batch it has (`ids` of a `Subset` are those of its
    dataset; `weights` follow the losses to their device), `sources` counts where items of this epoch came from,
    `waited_s` and `elapsed_s` say how long it waited for data. `audits` has an `Audit` for each epoch.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        seed: int | None = None,
        mode: Mode | str = "strict",
        rank: int | None = None,
        world: int | None = None,
        uneven: str = "pad",
        job: str | None = None,
        attempt: int | None = None,
        weight: float = 1.0,
        in_step: str = "",
        **kwargs: Any,
    ) -> None:
        self._arguments = {key: value for key, value in locals().items() if key not in ("self", "kwargs")} | kwargs
        how = batching_of(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if not kwargs.get("in_order", True):
            raise ValueError('a Loader gives batches in order: for cached items first, use mode="reorder"')
        self.dataset, self.batch_size, self.drop_last = dataset, how.batch_size, how.drop_last
        self._size = how.batch_size or 1
        self._items, index = resolve(dataset)
        self._selection = None if index is None else hash(index.tobytes())
        if seed is None:
            seed = 0 if generator is None else generator.initial_seed() & (2**63 - 1)
        ranks = {"seed": seed, "rank": rank, "world": world, "uneven": uneven}
        self.sampler = sampler_for(self._items, index, how.sampler, how.batches, shuffle, **ranks)
        # A repeated order is only reported for one that the seed makes.
        self._is_seeded = how.sampler is None and how.batches is None and self.sampler.shuffle
        self.num_workers, self.pin_memory, self.generator = num_workers, pin_memory, generator
        self.rank, self.world, self.uneven = self.sampler.rank, self.sampler.world, self.sampler.uneven
        self.mode = mode_of(mode, len(self._items))
        self.epoch = 0
        self.audits: list[Audit] = []
        self.ids: list[int] = []
        self.weights = sample_weights(torch.ones(0))
        self.sources: Counter[str] = Counter()
        self.waited_s = self.elapsed_s = 0.0
        self._source = cast("fodder.Dataset", self._items.dataset)
        self._seat = Seat(self, self._source, self.rank)
        self._told = Told(self._seat, self._source.name, self.world)
        ranks = {"rank": self.rank, "world": self.world, "uneven": self.uneven}
        settings = {"weight": weight, "in_step": in_step}
        self._job = Job(self._seat, self._source, self.mode, ranks, name=job, attempt=attempt, settings=settings)
        # The epoch under way; the last one that began; a loaded state, and what it has left of its epoch.
        self._current: Epoch | None = None
        self._reached = -1
        self._resume: dict[str, Any] | None = None
        self._rest: Epoch | None = None
        self._is_positioned = self.sampler._next != 0
        self._tickets = Tickets()
        collate = collate_fn or (default_convert if how.is_single else default_collate)
        self.collate_fn = collate
        self._loader = torch.utils.data.DataLoader(
            Fetch(self._items, OnlySample(collate) if how.is_single else collate),
            batch_size=None,
            sampler=self._tickets,
            collate_fn=as_it_is,
            num_workers=num_workers,
            pin_memory=pin_memory,
            timeout=timeout,
            worker_init_fn=worker_init_fn,
            multiprocessing_context=multiprocessing_context,
            generator=generator,
            **kwargs,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy with the same arguments, which begins where this one is, as a job of its own."""
        is_known = self._current is None or isinstance(self.mode, Strict) or self.world == 1
        # Only all ranks together know where they are in an epoch that reorders; the copy begins it again.
        state = {**self.state_dict(), "job": None} if is_known else None
        return _copy, (type(self), self._arguments, self.epoch, state, self.audits)

    def __repr__(self) -> str:
        ranks = f", rank={self.rank}, world={self.world}" if self.world > 1 else ""
        size = f"batch_size={self.batch_size}" if self._arguments["batch_sampler"] is None else "batch_sampler=..."
        return (
            f"{type(self).__name__}({self.dataset!r}, {size}, sampler={type(self.sampler).__name__}, mode={self.mode}, "
            f"num_workers={self.num_workers}{ranks}): epoch {self.epoch}, {self.batches_taken} of {len(self)} batches"
        )

    # What a loop sees.

    def __len__(self) -> int:
        """The number of batches of the current epoch, including those taken before a resume.

        Once the last batch has been taken, this is the next epoch's number (an upper bound, if its sampler selects).
        Trainers count the batches of a resumed epoch from its beginning, and so does a progress bar that begins at
        `batches_taken`.
        """
        if self._current is None and self._resume is None:
            batches = getattr(self.sampler, "_batch_sampler", None)
            if batches is not None:
                return len(batches)
            return batches_in(self.sampler._most(self._next_epoch), self._size, self.drop_last)
        epoch = self._current or self._load_rest()
        return epoch.resumed_at + epoch.total

    @property
    def batches_taken(self) -> int:
        """How many batches of the current epoch the loop has taken, including those before a resume."""
        if self._current is not None:
            return self._current.resumed_at + self._current.taken
        return 0 if self._resume is None else int(self._resume["batches"])

    def set_epoch(self, epoch: int) -> None:
        """Selects the epoch of the next pass. A state loaded in the middle of that same epoch stays in effect."""
        if self._resume is not None and epoch == self._resume["epoch"]:
            return
        self._is_positioned = True
        self.epoch = epoch
        self._current = self._rest = self._resume = None
        self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        epoch = self._begin()
        self.sources, self.waited_s, self.elapsed_s = Counter(), 0.0, 0.0
        begun = time.perf_counter()
        try:
            yield from self._pass(epoch, begun)
            self._finish(epoch)
        finally:
            self.elapsed_s = time.perf_counter() - begun
            self._told.flush()
            self._told.tell_scores()

    @property
    def batch_sampler(self) -> Any:
        """The batch sampler that was given."""
        if self._arguments["batch_sampler"] is not None:
            return self._arguments["batch_sampler"]
        raise AttributeError(
            "a fodder.torch.Loader resumes by load_state_dict, without reading what it skips: call that instead of "
            "skip_first_batches, and give a Hugging Face Trainer ignore_data_skip=True"
        )

    def report(self, losses: Any = None, embeddings: Any = None, ids: Any = None) -> None:
        """What training has shown of the samples of the last batch (or of `ids`): their losses, their embeddings.

        They are attributed to the items that were really served. Losses steer an `ImportanceSampler`, and what the
        cache keeps; embeddings tell the policy `semantic` which items are alike. A loss that is no number is passed
        over.
        """
        which = np.asarray(self.ids if ids is None else _array(ids), dtype=np.uint32).reshape(-1)
        if losses is not None:
            values = _array(losses).astype(np.float64).reshape(-1)
            if len(values) != len(which):
                raise ValueError(f"{len(values)} losses for a batch of {len(which)}: give one for each sample")
            good = np.isfinite(values)
            if not good.all():
                self._told.warn(f"{int((~good).sum())} losses were not finite and are ignored")
            update = getattr(self.sampler, "update", None)
            if update is not None:
                update(which, values)
            self._told.scored(which[good].tolist(), values[good].tolist())
        if embeddings is not None:
            rows = _array(embeddings).astype(np.float32).reshape(len(which), -1)
            self._told.embedded(which, rows)

    # Going on from where it was.

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on after the batches that the loop took, on any number of ranks.

        In strict mode each rank knows it alone: all ranks are taken to have had as many batches as this one. In the
        other modes with several ranks all of them must call it, at the same step.
        """
        state: dict[str, Any] = {
            "version": 1,
            "epoch": self._next_epoch if self._current is None and self._resume is None else self.epoch,
            "batches": self.batches_taken,
            "job": self._job.name,
            "sampler": self.sampler._state(),
        }
        state["snapshot"] = self._source.snapshot
        if self._current is not None:
            state.update(self._current.state(self.mode, self.world))
        elif self._resume is not None:
            state.update({key: self._resume[key] for key in ("checkpoint", "ids", "index", "offsets")})
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from there: the next pass is the rest of the epoch that it was in."""
        if state.get("version") != 1:
            raise ValueError("this is not a state of a fodder.torch.Loader of this version")
        if state["snapshot"] != self._source.snapshot and "checkpoint" in state:
            raise errors.Stale(
                "the dataset has changed since the state was saved, and its items have other ids now: "
                "begin the epoch again with set_epoch"
            )
        self._seat.leave()
        self._is_positioned = True
        self.sampler._load_state(state["sampler"])
        self.epoch, self._current, self._rest = state["epoch"], None, None
        self._resume = state if "checkpoint" in state else None
        if self._resume is not None:
            # It is this job that goes on. An epoch that begins needs no other, which may be further in it.
            self._job.name = self._job.name or state["job"]

    def close(self) -> None:
        """Tells the node that this rank is done; when all are, the job is. Ends workers that persist."""
        self._told.flush()
        self._told.tell_scores()
        self._seat.leave()
        # Torch would end them when it is collected, which may be late, and in a worker of the next loader.
        workers, self._loader._iterator = self._loader._iterator, None
        if workers is not None and hasattr(workers, "_shutdown_workers"):
            workers._shutdown_workers()

    # An epoch.

    def _begin(self) -> Epoch:
        if self._current is not None:
            # The last pass was left early. That epoch is over, and its audit says what is missing.
            self._finish(self._current)
        resume = self._resume
        if resume is None:
            self.epoch = self._next_epoch
            if self.epoch <= self._reached:
                self._job.repeat()
            order = self.sampler.order(self.epoch)
            snapshot, items, planned = planned_over(self._source, order, self.mode)
            epoch = self._epoch_of(Plan(snapshot, items, self.epoch, **planned, **self._ranks), order)
        else:
            epoch = self._load_rest()
        self._current = epoch
        self._warn_of_repeat()
        self._reached = epoch.plan.epoch
        self._told.begin(epoch.plan.epoch)
        self._job.join(epoch, None if resume is None else resume["checkpoint"])
        self._resume = self._rest = None
        return epoch

    @property
    def _next_epoch(self) -> int:
        """The epoch of the next pass: that of the sampler, because Lightning sets the epoch only there."""
        return self.sampler._next

    def _load_rest(self) -> Epoch:
        """Plans what the loaded state has left of its epoch."""
        if self._rest is None:
            assert self._resume is not None
            resume = self._resume
            order = {key: resume[key] for key in ("ids", "index") if resume[key] is not None}
            order = {**(order or {"seed": self.sampler.seed}), "offsets": resume["offsets"]}
            snapshot, items, planned = planned_over(self._source, order, self.mode)
            plan = Plan.resume(resume["checkpoint"], snapshot, items, ids=planned.get("ids"), **self._ranks)
            self._rest = self._epoch_of(plan, order, resume["batches"])
        return self._rest

    def _epoch_of(self, plan: Plan, order: dict[str, Any], resumed_at: int = 0) -> Epoch:
        return Epoch(plan, order, self.rank, self._size, self.drop_last, resumed_at)

    @property
    def _ranks(self) -> dict[str, Any]:
        return {"world": self.world, "uneven": self.uneven}

    def _warn_of_repeat(self) -> None:
        if self._is_seeded and not self._is_positioned and self.epoch == 0 and self._reached < 0:
            warn_of_repeat(self._repeat_key, self._source.name, self.sampler.seed)

    @property
    def _repeat_key(self) -> Hashable:
        source = self._source
        is_local = isinstance(self._items, LocalDataset)
        where = id(self.dataset) if is_local else (source.client._settings[0], source.name, source.snapshot)
        return where, self._selection, self.sampler.seed, self.rank, self.world, self._arguments["job"]

    def _go_on(self, epoch: Epoch, *, elsewhere: bool) -> None:
        """The node is gone, or knows the job no more: goes on behind what was consumed, at another one or there."""
        self._told.begin(epoch.plan.epoch)
        self._job.go_on(epoch, elsewhere=elsewhere)

    def _pass(self, epoch: Epoch, begun: float) -> Iterator[Any]:
        left: tuple[bytes, bytes] | None = None
        moves = 0
        while True:
            first = epoch.taken
            try:
                yield from self._run(epoch, first, left, begun)
                return
            except (errors.NotFound, errors.Unavailable) as error:
                is_away = isinstance(error, errors.Unavailable)
                moves = moves + 1 if epoch.taken == first else 1
                if self._seat.may_move and self._seat.job is not None and moves <= _MOVES:
                    self._go_on(epoch, elsewhere=is_away)
                    continue
                # In strict mode workers know what to do when a node was restarted, and this is about something else.
                if is_away or self._seat.may_move or isinstance(self.mode, Strict) or left is not None:
                    raise
                # So it is if the node has the job: what was not found is an item.
                if moves > _MOVES or self._seat.is_known():
                    raise
                self._told.begin(epoch.plan.epoch)
                if self.world == 1:
                    self._job.introduce(epoch, epoch.plan.checkpoint())
                else:
                    # Only all ranks together could have the job again, and some may wait for this one. What is left
                    # of its own share a rank knows, and reads in the order planned.
                    self._seat.job = None
                    left = epoch.left()

    def _run(self, epoch: Epoch, first: int, left: tuple[bytes, bytes] | None, begun: float) -> Iterator[Any]:
        """Batches from the `first` on, which the node counts from 0; of what is `left`, if that is said."""
        numbers = range(first, epoch.total)
        self._tickets.tickets = lambda: (epoch.ticket(self._seat, self.mode, first, left, number) for number in numbers)
        batches = iter(self._loader)
        ahead = take_ahead(batches, self._acknowledge)
        try:
            while True:
                asked = time.perf_counter()
                parcel = next(batches if ahead is None else ahead, None)
                now = time.perf_counter()
                self.waited_s += now - asked
                self.elapsed_s = now - begun
                if parcel is None:
                    return
                self._take(epoch, parcel)
                if self._current is epoch and epoch.taken == epoch.total:
                    # A trainer that knows the length does not ask for another batch, and reads `len` and `audits` next.
                    self._finish(epoch)
                if ahead is not None:
                    ahead.taken(parcel)
                elif self._current is epoch:
                    self._acknowledge()
                yield parcel.data
        finally:
            if ahead is not None:
                ahead.close()
            if getattr(batches, "_shutdown", False):
                # Also of workers that were to persist, if one was killed.
                self._loader._iterator = None

    def _take(self, epoch: Epoch, parcel: Parcel) -> None:
        """The loop is given a batch, and from now on has had it."""
        epoch.take(parcel)
        self.ids = parcel.ids
        self.weights = sample_weights(self.sampler.weights_of(parcel.ids))
        self.sources.update(parcel.sources)
        if parcel.by_id:
            self._seat.job = None
        self._told.consumed(parcel.number, parcel.asked)

    def _acknowledge(self) -> None:
        self._told.acknowledge(self._size)

    def _finish(self, epoch: Epoch) -> None:
        """The epoch is over: its audit is available, and `len` is that of the next one."""
        if epoch is not self._current:
            return
        audit = epoch.audit()
        self._told.flush()
        if self._seat.since and self._seat.job is not None:
            # The node is gone, and nobody else knows what was consumed last.
            try:
                self._go_on(epoch, elsewhere=True)
            except errors.FodderError as error:
                self._told.warn(f"no node received the report of the last batches: {error}")
        self.audits.append(audit)
        self.epoch, self._current = audit.epoch + 1, None
        self._told.begin(None)
        if self.sampler._next == audit.epoch:
            self.sampler.set_epoch(self.epoch)
        if self._is_seeded and audit.epoch == 0 and audit.exact:
            note_pass(self._repeat_key)


def _copy(
    kind: type[Loader], arguments: dict[str, Any], epoch: int, state: dict[str, Any] | None, audits: list[Audit]
) -> Loader:
    loader = kind(**arguments)
    loader.audits = list(audits)
    if state is None:
        loader.set_epoch(epoch)
    else:
        loader.load_state_dict(state)
    return loader


def _array(values: Any) -> np.ndarray[Any, Any]:
    return np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values)
