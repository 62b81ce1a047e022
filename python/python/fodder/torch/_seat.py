"""A rank's place in a job at a node. It is given up once: when its owner says so, is forgotten, or the process ends."""

from __future__ import annotations

import contextlib
import os
import weakref

import fodder


class Seat:
    """What `owner` is at a node, while it is there."""

    def __init__(self, owner: object, dataset: fodder.Dataset, rank: int) -> None:
        self._dataset, self._rank = dataset, rank
        self._process = os.getpid()
        self.job: int | None = None
        # Also at exit, which a method of the owner would not see.
        weakref.finalize(owner, self.leave)

    def leave(self) -> None:
        """This rank is done; when all are, the job is."""
        job, self.job = self.job, None
        # A forked worker that lets go of its copy says nothing.
        if job is not None and self._process == os.getpid():
            with contextlib.suppress(fodder.FodderError):
                self._dataset.client._node.leave(self._dataset.name, job, self._rank)
