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
import torch.distributed as dist
import torch.utils.data
from torch.utils.data import default_collate, default_convert

import fodder
from fodder import errors
from fodder._fodder import Node, Plan
from fodder.torch._ahead import take_ahead
from fodder.torch._attempt import Start, attempt_of
from fodder.torch._audit import Audit
from fodder.torch._batching import batching_of
from fodder.torch._fetch import Fetch, OnlySample, Parcel, Ticket, Tickets, as_it_is
from fodder.torch._listed import sampler_for
from fodder.torch._mode import Mode, Strict, mode_of
from fodder.torch._rank import job_name
from fodder.torch._repeat import note_pass, warn_of_repeat
from fodder.torch._seat import Seat
from fodder.torch._source import LocalDataset, local_snapshot, resolve
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
        self._name, self._attempt, self._settings = job, attempt, {"weight": weight, "in_step": in_step}
        self._source = cast("fodder.Dataset", self._items.dataset)
        self._seat = Seat(self, self._source, self.rank)
        self._told = Told(self._seat, self._source.name, self.world)
        self._again = 0
        self._plan: Plan | None = None
        self._rest: Plan | None = None
        self._total = 0
        self._resumed_at = 0
        self._base: dict[str, Any] = {}
        self._order: dict[str, Any] = {}
        self._taken = 0
        self._offsets: list[int] = []
        self._reached = -1
        self._is_positioned = self.sampler._next != 0
        self._resume: dict[str, Any] | None = None
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
        is_known = self._plan is None or isinstance(self.mode, Strict) or self.world == 1
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
        if self._plan is None and self._resume is None:
            batches = getattr(self.sampler, "_batch_sampler", None)
            return self._batches(self.sampler._most(self._next_epoch)) if batches is None else len(batches)
        if self._plan is None:
            self._load_rest()
        return self._resumed_at + self._total

    @property
    def batches_taken(self) -> int:
        """How many batches of the current epoch the loop has taken, including those before a resume."""
        return self._resumed_at + self._taken

    def set_epoch(self, epoch: int) -> None:
        """Selects the epoch of the next pass. A state loaded in the middle of that same epoch stays in effect."""
        if self._resume is not None and epoch == self._resume["epoch"]:
            return
        self._is_positioned = True
        self.epoch = epoch
        self._plan = self._rest = self._resume = None
        self._taken = self._resumed_at = 0
        self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        plan = self._begin()
        self.sources, self.waited_s, self.elapsed_s = Counter(), 0.0, 0.0
        begun = time.perf_counter()
        try:
            yield from self._pass(plan, begun)
            self._finish(plan)
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
            "a fodder.torch.Loader resumes by load_state_dict, which skips nothing by reading it: call that instead of "
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
                self._told.warn(f"{int((~good).sum())} losses were no numbers and are passed over")
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
            "epoch": self._next_epoch if self._plan is None and self._resume is None else self.epoch,
            "batches": self.batches_taken,
            "job": self._name,
            "sampler": self.sampler._state(),
        }
        state["snapshot"] = self._source.snapshot
        if self._plan is not None:
            state["checkpoint"] = self._checkpoint(self._plan)
            state.update({key: self._order.get(key) for key in ("ids", "index")})
            state["offsets"] = [offset - self._start_of(self._taken) for offset in self._offsets[self._taken :]]
        elif self._resume is not None:
            state.update({key: self._resume[key] for key in ("checkpoint", "ids", "index", "offsets")})
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from there: the next pass is the rest of the epoch that it was in."""
        if state.get("version") != 1:
            raise ValueError("this is not the state of a fodder.torch.Loader, or of another version of it")
        if state["snapshot"] != self._source.snapshot and "checkpoint" in state:
            raise errors.Stale(
                "the dataset has changed since the state was saved, and its items have other numbers now: "
                "begin the epoch again with set_epoch"
            )
        self._seat.leave()
        self._is_positioned = True
        self.sampler._load_state(state["sampler"])
        self.epoch, self._plan, self._rest, self._taken = state["epoch"], None, None, 0
        self._resume = state if "checkpoint" in state else None
        self._resumed_at = state["batches"] if self._resume is not None else 0
        if self._resume is not None:
            # It is this job that goes on. An epoch that begins needs no other, which may be further in it.
            self._name = self._name or state["job"]

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

    def _begin(self) -> Plan:
        if self._plan is not None:
            # The last pass was left early. That epoch is over, and its audit says what is missing.
            self._finish(self._plan)
        resume = self._resume
        if resume is None:
            self.epoch = self._next_epoch
            if self.epoch <= self._reached:
                # The same epoch once more: to the node that is another job, by another name where ranks may still be in
                # the first one.
                self._seat.leave()
                self._again += self.world > 1
            order = dict(self.sampler.order(self.epoch))
            plan = self._plan_of(order)
            self._resumed_at = 0
        else:
            plan = self._load_rest()
            order = {key: resume[key] for key in ("ids", "index") if resume[key] is not None}
            order = {**(order or {"seed": self.sampler.seed}), "offsets": resume["offsets"]}
        self._offsets = order.pop("offsets", [])
        self._plan, self._base, self._order, self._taken = plan, plan.audit(), order, 0
        self._total = self._batches(plan.share_of(self.rank))
        self._warn_of_repeat()
        self._reached = plan.epoch
        self._told.begin(plan.epoch)
        self._join(plan, order, None if resume is None else resume["checkpoint"])
        self._resume = self._rest = None
        return plan

    @property
    def _next_epoch(self) -> int:
        """The epoch of the next pass: that of the sampler, because Lightning sets the epoch only there."""
        return self.sampler._next

    def _load_rest(self) -> Plan:
        """Plans what the loaded state has left of its epoch."""
        if self._rest is None:
            assert self._resume is not None
            resume, ranks = self._resume, self._ranks
            snapshot, items, order = self._planned_over(resume)
            self._rest = Plan.resume(resume["checkpoint"], snapshot, items, ids=order.get("ids"), **ranks)
            self._offsets = resume["offsets"]
            self._total = self._batches(self._rest.share_of(self.rank))
        return self._rest

    @property
    def _ranks(self) -> dict[str, Any]:
        return {"world": self.world, "uneven": self.uneven}

    def _plan_of(self, order: dict[str, Any]) -> Plan:
        snapshot, items, planned = self._planned_over(order)
        return Plan(snapshot, items, self.epoch, **planned, **self._ranks)

    def _planned_over(self, order: dict[str, Any]) -> tuple[str, int, dict[str, Any]]:
        """What a plan is about: the items of the dataset, or the places of a list that may repeat some."""
        if order.get("index") is None:
            return self._source.snapshot, len(self._source), {k: order[k] for k in ("seed", "ids") if k in order}
        if not isinstance(self.mode, Strict):
            raise ValueError(
                "an epoch that is read by index (of a dataset that the node does not know, with repeated samples, or "
                "by a batch sampler) is strict: leave out mode, or give a fodder dataset and a sampler without "
                "replacement"
            )
        items = len(order["index"]) // 4
        return local_snapshot(items), items, {"ids": np.arange(items, dtype=np.uint32).tobytes()}

    def _join(self, plan: Plan, order: dict[str, Any], checkpoint: bytes | None) -> None:
        """Joins the job at a node, unless the epoch is read by index."""
        if "index" in order:
            self._seat.leave()
        else:
            self._introduce(plan, order, checkpoint)

    def _warn_of_repeat(self) -> None:
        if self._is_seeded and not self._is_positioned and self.epoch == 0 and self._reached < 0:
            warn_of_repeat(self._repeat_key, self._source.name, self.sampler.seed)

    @property
    def _repeat_key(self) -> Hashable:
        source = self._source
        is_local = isinstance(self._items, LocalDataset)
        where = id(self.dataset) if is_local else (source.client._settings[0], source.name, source.snapshot)
        return where, self._selection, self.sampler.seed, self.rank, self.world, self._arguments["job"]

    def _introduce(self, plan: Plan, order: dict[str, Any], checkpoint: bytes | None) -> None:
        """Tells the node which job this is and what it will ask for."""
        if self._name is None:
            self._name = job_name(self.world)
        start = None
        if checkpoint is not None:
            self._seat.forget()
            start = Start(checkpoint, attempt_of(self.world) if self._attempt is None else self._attempt)
        self._seat.reach(lambda node: self._introduce_at(node, plan, order, start))

    def _introduce_at(self, node: Node, plan: Plan, order: dict[str, Any], start: Start | None) -> None:
        source = self._source
        name = f"{self._name} again {self._again}" if self._again else str(self._name)
        settings: dict[str, Any] = {
            **self.mode._settings(),
            **self._settings,
            "world": self.world,
            "uneven": self.uneven,
        }
        try:
            job, _, _ = node.introduce(source.name, name, **settings)
        except errors.Conflict:
            known = [job for job in node.jobs(source.name) if job["name"] == name]
            # It may be there on another number of ranks, as it was before it resumed.
            if not known or (start is None and not self._seat.has_receipt):
                raise
            job = known[0]["job"]
        if start is not None:
            job = start.resume(node, source.name, job, self.world, self.rank, order.get("ids"))
        snapshot = self._seat.begin(node, job, plan.epoch, order)
        if snapshot == source.snapshot:
            self._seat.job = job
        elif isinstance(self.mode, Strict):
            # The dataset was refreshed. What was opened stays as it is; the node's ledger would speak of other items.
            self._seat.job = None
            node.leave(source.name, job, self.rank)
        else:
            raise errors.Stale("the dataset has changed since it was opened: open it again")

    def _go_on(self, plan: Plan, elsewhere: bool) -> None:
        """The node is gone, or knows the job no more: goes on behind what was consumed, at another one or there."""
        self._told.begin(plan.epoch)
        self._seat.reach(lambda node: self._introduce_at(node, plan, self._order, None), elsewhere=elsewhere)

    def _pass(self, plan: Plan, begun: float) -> Iterator[Any]:
        left: tuple[bytes, bytes] | None = None
        moves = 0
        while True:
            first = self._taken
            try:
                yield from self._run(plan, first, left, begun)
                return
            except (errors.NotFound, errors.Unavailable) as error:
                is_away = isinstance(error, errors.Unavailable)
                moves = moves + 1 if self._taken == first else 1
                if self._seat.may_move and self._seat.job is not None and moves <= _MOVES:
                    self._go_on(plan, is_away)
                    continue
                # In strict mode workers know what to do when a node was restarted, and this is about something else.
                if is_away or self._seat.may_move or isinstance(self.mode, Strict) or left is not None:
                    raise
                # So it is if the node has the job: what was not found is an item.
                if moves > _MOVES or self._seat.is_known():
                    raise
                self._told.begin(plan.epoch)
                if self.world == 1:
                    self._introduce(plan, self._order, plan.checkpoint())
                else:
                    # Only all ranks together could have the job again, and some may wait for this one. What is left
                    # of its own share a rank knows, and reads in the order planned.
                    self._seat.job = None
                    left = plan.left(self.rank, plan.audit()["pads"] - self._base["pads"])

    def _run(self, plan: Plan, first: int, left: tuple[bytes, bytes] | None, begun: float) -> Iterator[Any]:
        """Batches from the `first` on, which the node counts from 0; of what is `left`, if that is said."""
        total = self._total
        self._tickets.tickets = lambda: (self._ticket(plan, first, left, number) for number in range(first, total))
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
                self._take(plan, parcel)
                if self._plan is plan and self._taken == total:
                    # A trainer that knows the length does not ask for another batch, and reads `len` and `audits` next.
                    self._finish(plan)
                if ahead is not None:
                    ahead.taken(parcel)
                elif self._plan is plan:
                    self._acknowledge()
                yield parcel.data
        finally:
            if ahead is not None:
                ahead.close()
            if getattr(batches, "_shutdown", False):
                # Also of workers that were to persist, if one was killed.
                self._loader._iterator = None

    def _ticket(self, plan: Plan, first: int, left: tuple[bytes, bytes] | None, number: int) -> Ticket:
        ids = pads = None
        job = self._seat.job
        if isinstance(self.mode, Strict) and (job is None or not self._seat.may_move):
            start = self._start_of(number)
            ids, pads = plan.ids(self.rank, start, self._start_of(number + 1) - start)
        elif left is not None:
            start, end = (number - first) * self._size, (number - first + 1) * self._size
            ids, pads = left[0][4 * start : 4 * end], left[1][start:end]
        # The last batch is asked for with the same size and comes shorter: workers ask in any order, and the node
        # reserves what was not asked for yet in batches of the size that it hears.
        index = self._order.get("index")
        if index is not None:
            index = np.frombuffer(index, np.uint32)[np.frombuffer(ids or b"", np.uint32)].tobytes()
        return Ticket(self._seat.address, job, plan.epoch, self.rank, number - first, self._size, ids, pads, index)

    def _take(self, plan: Plan, parcel: Parcel) -> None:
        """The loop is given a batch, and from now on has had it."""
        self._taken += 1
        self.ids = parcel.ids
        self.weights = sample_weights(self.sampler.weights_of(parcel.ids))
        self.sources.update(parcel.sources)
        plan.take(self.rank, parcel.asked, parcel.ids, parcel.deliveries)
        if parcel.by_id:
            self._seat.job = None
        self._told.consumed(parcel.number, parcel.asked)

    def _acknowledge(self) -> None:
        self._told.acknowledge(self._size)

    def _finish(self, plan: Plan) -> None:
        """The epoch is over: its audit is available, and `len` is that of the next one."""
        if plan is not self._plan:
            return
        base = self._base
        share = plan.share_of(self.rank)
        whole = min(share, self._start_of(self._total))
        _, pads = plan.ids(self.rank, 0, whole)
        planned = whole - int(np.frombuffer(pads, np.uint8).sum())
        now = plan.audit()
        consumed = now["consumed"] - base["consumed"]
        counts = {key: now[key] - base[key] for key in ("duplicates", "pads", "substitutions")}
        if whole < share and self._taken == self._total:
            # Which items `drop_last` leaves out, pads among them, depends on the order of serving.
            planned = whole - counts["pads"]
        counts["dropped"] = share - whole
        self._told.flush()
        if self._seat.since and self._seat.job is not None:
            # The node is gone, and nobody else knows what was consumed last.
            try:
                self._go_on(plan, True)
            except errors.FodderError as error:
                self._told.warn(f"no node was told of the last batches: {error}")
        self.audits.append(
            Audit(epoch=plan.epoch, planned=planned, consumed=consumed, omissions=planned - consumed, **counts)
        )
        self.epoch, self._plan, self._taken, self._resumed_at = plan.epoch + 1, None, 0, 0
        self._told.begin(None)
        self._offsets = []
        if self.sampler._next == plan.epoch:
            self.sampler.set_epoch(self.epoch)
        if self._is_seeded and plan.epoch == 0 and self.audits[-1].exact:
            note_pass(self._repeat_key)

    def _batches(self, share: int) -> int:
        if self._offsets:
            return len(self._offsets) - 1
        return share // self._size if self.drop_last else -(-share // self._size)

    def _start_of(self, number: int) -> int:
        """Where in this rank's share a batch begins."""
        return self._offsets[number] if self._offsets else number * self._size

    def _checkpoint(self, plan: Plan) -> bytes:
        if isinstance(self.mode, Strict):
            return plan.checkpoint_in_step(self._start_of(self._taken))
        if self.world == 1:
            return plan.checkpoint()
        if not (dist.is_available() and dist.is_initialized()):
            raise ValueError("ranks that reorder put their states together through torch.distributed: initialise it")
        everyone: list[Any] = [None] * self.world
        dist.all_gather_object(everyone, plan.checkpoint())
        return plan.merge(everyone)


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
