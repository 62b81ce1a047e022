"""A rank's place in a job: at which node, and what it takes to have it at another one.

It is given up once: when its owner says so, is forgotten, or the process ends.
"""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from typing import Any, Callable, TypeVar

import numpy as np

import fodder
from fodder import errors
from fodder._fodder import Node

_T = TypeVar("_T")

# Between two rounds over nodes of which none answers.
_PAUSE_S = 0.1

# What a rank may have consumed since its last receipt, and batches that are acknowledged in one message, at most.
MOST_SINCE = 65_536
_MOST_NUMBERS = 1_024


class Seat:
    """What `owner` is at a node, while it is there."""

    def __init__(self, owner: object, dataset: fodder.Dataset, rank: int) -> None:
        self._dataset, self._rank = dataset, rank
        self._process = os.getpid()
        self._addresses = dataset.client._settings[0]
        self.address = self._addresses[0]
        self.job: int | None = None
        # Of which epoch the receipt is, in which order; and the items that were consumed since.
        self._epoch, self._order, self._receipt = 0, dict[str, Any](), b""
        self.since: list[int] = []
        # Also at exit, which a method of the owner would not see.
        weakref.finalize(owner, self.leave)

    @property
    def node(self) -> Node:
        """The node where the job is."""
        return self._dataset.client._at(self.address)

    @property
    def may_move(self) -> bool:
        """Whether there is another node."""
        return len(self._addresses) > 1

    @property
    def has_receipt(self) -> bool:
        """Whether it can show what was consumed."""
        return bool(self._receipt)

    def reach(self, say: Callable[[Node], _T], *, elsewhere: bool = False) -> _T:
        """Says something to the node where the job is, or to the first of the others that answers: it is there then.

        `elsewhere`: to the others first. One that answers only nodes on other machines is passed over.
        """
        end = time.monotonic() + self._dataset.client._settings[2]
        while True:
            away: errors.Unavailable | None = None
            denied: errors.Denied | None = None
            place = self._addresses.index(self.address) + elsewhere
            for address in self._addresses[place:] + self._addresses[:place]:
                try:
                    said = say(self._dataset.client._at(address))
                    self.address = address
                    return said
                except errors.Unavailable as error:
                    away = error
                except errors.Denied as error:
                    # It answers no clients on this machine; one that is away may, when it is back.
                    denied = error
            if denied is not None and away is None:
                raise denied
            if away is not None and (not self.may_move or time.monotonic() > end):
                raise away
            time.sleep(_PAUSE_S)

    def begin(self, node: Node, job: int, epoch: int, order: dict[str, Any]) -> str:
        """Begins an epoch at a node, or goes on in it behind what was consumed at another: the snapshot it is on."""
        name = self._dataset.name
        if self._receipt and epoch != self._epoch and node is not self.node:
            # What was consumed last in the epoch before, that node may have told nobody.
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                node.begin_epoch(name, job, self._rank, self._epoch, **self._order, **self._shown())
        shown = self._shown() if self._receipt and epoch == self._epoch else {}
        _, snapshot, _, receipt = node.begin_epoch(name, job, self._rank, epoch, **order, **shown)
        self._epoch, self._order, self._receipt, self.since = epoch, order, receipt if self.may_move else b"", []
        return snapshot

    def acknowledge(self, job: int, epoch: int, numbers: list[int]) -> None:
        """Batches were consumed, and with them all that was since the last receipt."""
        for start in range(0, len(numbers), _MOST_NUMBERS):
            part = numbers[start : start + _MOST_NUMBERS]
            receipt = self.node.acknowledge(self._dataset.name, job, epoch, self._rank, part, self.may_move)
        if self.may_move:
            self._receipt, self.since = receipt, []

    def is_known(self) -> bool:
        """Whether the node still has the job."""
        if self.job is None:
            return False
        try:
            self.node.renew(self._dataset.name, self.job)
        except errors.NotFound:
            return False
        return True

    def forget(self) -> None:
        """What was consumed is of no more use: the job resumes, or another one begins."""
        self._receipt, self.since = b"", []

    def _shown(self) -> dict[str, Any]:
        return {"receipt": self._receipt, "consumed": np.asarray(self.since, np.uint32).tobytes()}

    def leave(self) -> None:
        """This rank is done; when all are, the job is."""
        job, self.job = self.job, None
        self.forget()
        # A forked worker that lets go of its copy says nothing.
        if job is not None and self._process == os.getpid():
            with contextlib.suppress(fodder.FodderError):
                self.node.leave(self._dataset.name, job, self._rank)
