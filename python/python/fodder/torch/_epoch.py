"""An epoch at one rank: its plan, its batches, and what the loop has taken. It knows no node and no workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch.distributed as dist

import fodder
from fodder._fodder import Plan
from fodder.torch._audit import Audit
from fodder.torch._fetch import Parcel, Ticket
from fodder.torch._mode import Mode, Strict
from fodder.torch._seat import Seat
from fodder.torch._source import local_snapshot


class Epoch:
    """An epoch, or the rest of one that was resumed, in batches of `size` items or where `offsets` divide it."""

    def __init__(
        self, plan: Plan, order: dict[str, Any], rank: int, size: int, drop_last: bool, resumed_at: int = 0
    ) -> None:
        self.plan, self._rank, self._size = plan, rank, size
        self.resumed_at, self.taken = resumed_at, 0
        self.order = {key: value for key, value in order.items() if key != "offsets"}
        self._offsets: list[int] = order.get("offsets", [])
        self._base = plan.audit()
        share = plan.share_of(rank)
        self.total = len(self._offsets) - 1 if self._offsets else batches_in(share, size, drop_last)

    def take(self, parcel: Parcel) -> None:
        """The loop is given a batch, and from now on has had it."""
        self.taken += 1
        self.plan.take(self._rank, parcel.asked, parcel.ids, parcel.deliveries)

    def ticket(self, seat: Seat, mode: Mode, first: int, left: tuple[bytes, bytes] | None, number: int) -> Ticket:
        """What a worker needs to fetch a batch, which the node counts from `first` on; of what is `left`, if given."""
        ids = pads = None
        if isinstance(mode, Strict) and (seat.job is None or not seat.may_move):
            start = self._start_of(number)
            ids, pads = self.plan.ids(self._rank, start, self._start_of(number + 1) - start)
        elif left is not None:
            start, end = (number - first) * self._size, (number - first + 1) * self._size
            ids, pads = left[0][4 * start : 4 * end], left[1][start:end]
        # The last batch is asked for with the same size and comes shorter: workers ask in any order, and the node
        # reserves what was not asked for yet in batches of the size that it hears.
        index = self.order.get("index")
        if index is not None:
            index = np.frombuffer(index, np.uint32)[np.frombuffer(ids or b"", np.uint32)].tobytes()
        place = self.plan.epoch, self._rank, number - first, self._size
        return Ticket(seat.address, seat.job, *place, ids, pads, index)

    def left(self) -> tuple[bytes, bytes]:
        """What this rank has not taken of its share: ids, and for each whether it is a pad."""
        return self.plan.left(self._rank, self.plan.audit()["pads"] - self._base["pads"])

    def audit(self) -> Audit:
        """What the epoch has come to."""
        share = self.plan.share_of(self._rank)
        whole = min(share, self._start_of(self.total))
        _, pads = self.plan.ids(self._rank, 0, whole)
        planned = whole - int(np.frombuffer(pads, np.uint8).sum())
        now = self.plan.audit()
        consumed = now["consumed"] - self._base["consumed"]
        counts = {key: now[key] - self._base[key] for key in ("duplicates", "pads", "substitutions")}
        if whole < share and self.taken == self.total:
            # Which items `drop_last` leaves out, pads among them, depends on the order of serving.
            planned = whole - counts["pads"]
        counts["dropped"] = share - whole
        return Audit(epoch=self.plan.epoch, planned=planned, consumed=consumed, omissions=planned - consumed, **counts)

    def state(self, mode: Mode, world: int) -> dict[str, Any]:
        """What is needed to go on after the batches that were taken."""
        start = self._start_of(self.taken)
        return {
            "checkpoint": self._checkpoint(mode, world),
            "ids": self.order.get("ids"),
            "index": self.order.get("index"),
            "offsets": [offset - start for offset in self._offsets[self.taken :]],
        }

    def _checkpoint(self, mode: Mode, world: int) -> bytes:
        if isinstance(mode, Strict):
            return self.plan.checkpoint_in_step(self._start_of(self.taken))
        if world == 1:
            return self.plan.checkpoint()
        if not (dist.is_available() and dist.is_initialized()):
            raise ValueError("ranks that reorder put their states together through torch.distributed: initialise it")
        everyone: list[Any] = [None] * world
        dist.all_gather_object(everyone, self.plan.checkpoint())
        return self.plan.merge(everyone)

    def _start_of(self, number: int) -> int:
        """Where in this rank's share a batch begins."""
        return self._offsets[number] if self._offsets else number * self._size


def batches_in(share: int, size: int, drop_last: bool) -> int:
    """The number of batches of a share."""
    return share // size if drop_last else -(-share // size)


def planned_over(source: fodder.Dataset, order: dict[str, Any], mode: Mode) -> tuple[str, int, dict[str, Any]]:
    """What a plan is about: the items of the dataset, or the places of a list that may repeat some."""
    if order.get("index") is None:
        return source.snapshot, len(source), {key: order[key] for key in ("seed", "ids") if key in order}
    if not isinstance(mode, Strict):
        raise ValueError(
            "an epoch that is read by index (of a dataset that the node does not know, with repeated samples, or "
            "by a batch sampler) is strict: leave out mode, or give a fodder dataset and a sampler without "
            "replacement"
        )
    items = len(order["index"]) // 4
    return local_snapshot(items), items, {"ids": np.arange(items, dtype=np.uint32).tobytes()}
