"""A loader's job at a node: introduces it, resumes it from a checkpoint, and goes on with it at another node."""

from __future__ import annotations

from typing import Any

import fodder
from fodder import errors
from fodder._fodder import Node
from fodder.torch._attempt import Start, attempt_of
from fodder.torch._epoch import Epoch
from fodder.torch._mode import Mode, Strict
from fodder.torch._rank import job_name
from fodder.torch._seat import Seat


class Job:
    """The job of a rank, by the name and with the settings that its node is told."""

    def __init__(
        self,
        seat: Seat,
        source: fodder.Dataset,
        mode: Mode,
        ranks: dict[str, Any],
        *,
        name: str | None,
        attempt: int | None,
        settings: dict[str, Any],
    ) -> None:
        self._seat, self._source, self._mode = seat, source, mode
        self._rank, self._world, self._uneven = ranks["rank"], ranks["world"], ranks["uneven"]
        self.name, self._attempt, self._settings = name, attempt, settings
        self._again = 0

    def repeat(self) -> None:
        """The same epoch once more: to the node that is another job, by another name where ranks may still be in the
        first one."""
        self._seat.leave()
        self._again += self._world > 1

    def join(self, epoch: Epoch, checkpoint: bytes | None) -> None:
        """Joins the job at a node, unless the epoch is read by index."""
        if "index" in epoch.order:
            self._seat.leave()
        else:
            self.introduce(epoch, checkpoint)

    def introduce(self, epoch: Epoch, checkpoint: bytes | None) -> None:
        """Tells the node which job this is and what it will ask for."""
        if self.name is None:
            self.name = job_name(self._world)
        start = None
        if checkpoint is not None:
            self._seat.forget()
            start = Start(checkpoint, attempt_of(self._world) if self._attempt is None else self._attempt)
        self._seat.reach(lambda node: self._introduce_at(node, epoch, start))

    def go_on(self, epoch: Epoch, *, elsewhere: bool) -> None:
        """Goes on behind what was consumed, at the same node or at another one."""
        self._seat.reach(lambda node: self._introduce_at(node, epoch, None), elsewhere=elsewhere)

    def _introduce_at(self, node: Node, epoch: Epoch, start: Start | None) -> None:
        source = self._source
        name = f"{self.name} again {self._again}" if self._again else str(self.name)
        settings: dict[str, Any] = {
            **self._mode._settings(),
            **self._settings,
            "world": self._world,
            "uneven": self._uneven,
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
            job = start.resume(node, source.name, job, self._world, self._rank, epoch.order.get("ids"))
        snapshot = self._seat.begin(node, job, epoch.plan.epoch, epoch.order)
        if snapshot == source.snapshot:
            self._seat.job = job
        elif isinstance(self._mode, Strict):
            # The dataset was refreshed. What was opened stays as it is; the node's ledger would speak of other items.
            self._seat.job = None
            node.leave(source.name, job, self._rank)
        else:
            raise errors.Stale("the dataset has changed since it was opened: open it again")
