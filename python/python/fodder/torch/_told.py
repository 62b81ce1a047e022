"""What a node is told while a loop runs: batches that were consumed, losses. It knows nothing of plans and workers.

A node that is away holds up nothing: the ledger is the loader's. Where another node may take its place, what was not
heard is said again.
"""

from __future__ import annotations

import warnings
from typing import Any, Callable

import numpy as np

from fodder import errors
from fodder.torch._seat import MOST_SINCE, Seat

# Batches that are acknowledged in one message, and losses that are reported in one.
_ACKNOWLEDGED = 16
_REPORTED = 8192

# Items that all ranks of a job may have consumed and not acknowledged: a quarter of what a node gives them before that.
# The rest is for what workers prefetch, which nobody can acknowledge yet.
_MOST_ITEMS = 2**20 // 4


class Told:
    """What a rank in its seat has to tell."""

    def __init__(self, seat: Seat, dataset: str, world: int) -> None:
        self._seat, self._dataset, self._world = seat, dataset, world
        self._epoch: int | None = None
        self._numbers: list[int] = []
        self._scores: dict[int, float] = {}
        self._warned: set[str] = set()

    def begin(self, epoch: int | None) -> None:
        """From now on batches are of this epoch, and count from 0."""
        self._epoch, self._numbers = epoch, []

    def consumed(self, number: int, asked: list[int]) -> None:
        """A batch was."""
        if self._seat.job is not None:
            self._numbers.append(number)
            if self._seat.may_move:
                self._seat.since += asked

    def acknowledge(self, size: int) -> None:
        """Tells of batches, of that size, if there are enough of them."""
        enough = min(_ACKNOWLEDGED, max(1, _MOST_ITEMS // (self._world * size)))
        if len(self._seat.since) + size > MOST_SINCE or len(self._numbers) >= enough:
            self.flush()

    def flush(self) -> None:
        """Tells of all batches."""
        epoch, numbers = self._epoch, self._numbers
        self._numbers = numbers if self._seat.may_move else []
        if numbers and epoch is not None and self.ask(lambda job: self._seat.acknowledge(job, epoch, numbers)):
            self._numbers = []

    def scored(self, ids: list[int], values: list[float]) -> None:
        """Items have these losses."""
        self._scores.update(zip(ids, values))
        if len(self._scores) >= _REPORTED:
            self.tell_scores()

    def tell_scores(self) -> None:
        """Tells of all losses."""
        scores, self._scores = self._scores, {}
        ids = np.fromiter(scores.keys(), np.uint32, len(scores)).tobytes()
        values = np.fromiter(scores.values(), np.float32, len(scores)).tobytes()
        told = not scores or self.ask(lambda job: self._seat.node.report_scores(self._dataset, job, values, ids))
        if not told and self._seat.may_move:
            self._scores = {**scores, **self._scores}

    def embedded(self, ids: np.ndarray[Any, Any], rows: np.ndarray[Any, Any]) -> None:
        """A model makes these points of items."""
        packed = ids.tobytes(), np.ascontiguousarray(rows).tobytes()
        self.ask(lambda job: self._seat.node.report_embeddings(self._dataset, job, rows.shape[1], *packed))

    def ask(self, call: Callable[[int], object]) -> bool:
        """Says something about the job, if there is one; whether it was heard."""
        if self._seat.job is None:
            return False
        try:
            call(self._seat.job)
            return True
        except (errors.NotFound, errors.Conflict):
            # It was restarted, or the job was resumed elsewhere; what is fetched next finds out, and knows what to do.
            pass
        except (errors.Unavailable, errors.Invalid) as error:
            if not (self._seat.may_move and isinstance(error, errors.Unavailable)):
                self.warn(f"a report to the node failed: {error}")
        return False

    def warn(self, text: str) -> None:
        """Says it once."""
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, RuntimeWarning, stacklevel=3)
