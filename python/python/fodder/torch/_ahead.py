"""Takes batches over from a DataLoader's workers one ahead of the training loop, in a thread.

To take a batch over means to ask its worker for the shared memory that it lies in, to map that, and when it is done
with, to unmap it: some milliseconds for a batch of some megabytes, every step. torch has a thread for that where memory
is pinned; this is one for everyone else. What is fetched, by whom and in which order stays with DataLoader.
"""

from __future__ import annotations

import os
import queue
import threading
from multiprocessing import connection
from typing import Any, Callable

# How long to wait for a thread that is in the middle of something: it hangs where a worker was killed while it sent.
_PATIENCE_S = 1.0


class _Closed(BaseException):
    """Ends the thread; DataLoader, which looks into exceptions, lets this one pass."""


class Ahead:
    """Batches of an iterator of DataLoader that has workers.

    The loop and the thread take turns: when the loop has taken a batch (`taken`), the thread does the `chores` and gets
    the next one. So never more than one batch lies here, and what the loop changes is not changed meanwhile.
    """

    def __init__(self, batches: Any, chores: Callable[[], object]) -> None:
        self._batches, self._chores = batches, chores
        self._filled, batches._data_queue = batches._worker_result_queue, self
        self._ready: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._turn = threading.Semaphore(1)
        self._given: list[Any] = []
        self._is_closed, self._process = False, os.getpid()
        self._heard, self._told = os.pipe()
        self._thread = threading.Thread(target=self._run, name="fodder-ahead", daemon=True)
        self._thread.start()

    def __next__(self) -> Any:
        batch, error = self._ready.get()
        try:
            if error is not None:
                raise error
        finally:
            # Its traceback leads here: a circle would keep the workers until somebody collects it.
            del error
        return batch

    def taken(self, batch: object) -> None:
        """The loop is given this one, and lets go of the one before it."""
        self._given.append(batch)
        self._turn.release()

    def close(self) -> None:
        """Takes no more, and then ends the workers, unless they persist and are well.

        Not before: they may leave half of something behind. And not later: torch would do it when its iterator is
        collected, which may happen in a forked worker of the next one.
        """
        if self._process != os.getpid():
            # A copy in a forked worker of another loader, which has no such thread, and the same pipe.
            return
        self._is_closed = True
        os.write(self._told, b".")
        self._turn.release()
        self._thread.join(_PATIENCE_S)
        self._batches._data_queue = self._filled
        os.close(self._told)
        if not self._thread.is_alive():
            os.close(self._heard)
        self._given.clear()
        if not self._batches._persistent_workers or not all(worker.is_alive() for worker in self._batches._workers):
            self._batches._shutdown_workers()

    # The thread.

    def _run(self) -> None:
        try:
            while self._may_go_on():
                self._chores()
                batch = next(self._batches)
                # The loop has let go of all but the last, so that their memory goes here and not there.
                past, self._given[:-1] = self._given[:-1], []
                self._ready.put((batch, None))
                del batch, past
        except _Closed:
            pass
        except BaseException as error:
            self._ready.put((None, error))

    def _may_go_on(self) -> bool:
        self._turn.acquire()
        return not self._is_closed

    def get(self, timeout: float | None = None) -> Any:
        """What a worker sent. For DataLoader, which asks here instead of the queue that workers fill."""
        heard = connection.wait([self._filled._reader, self._heard], timeout)
        if self._is_closed:
            raise _Closed
        if not heard:
            raise queue.Empty
        try:
            return self._filled.get()
        except (OSError, EOFError):
            # Whoever is killed lets go of its connections a moment before it counts as dead, which DataLoader looks at.
            connection.wait([worker.sentinel for worker in self._batches._workers], _PATIENCE_S)
            raise


def take_ahead(batches: Any, chores: Callable[[], object]) -> Ahead | None:
    """Takes ahead from this iterator, unless it has no workers or torch has a thread for it."""
    filled = getattr(batches, "_worker_result_queue", None)
    if filled is None or filled is not getattr(batches, "_data_queue", None) or not hasattr(filled, "_reader"):
        return None
    return Ahead(batches, chores)
