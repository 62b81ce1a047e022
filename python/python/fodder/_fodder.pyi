"""The native part: a node's client and the arithmetic of plans. Use it through `fodder` and `fodder.torch`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

__version__: str

class Batch(Sequence[memoryview]):
    """The items of one answer, in the order asked.

    A sequence of `memoryview`: all items lie in one buffer that the node's answer was received into, and nothing was
    copied. A view keeps the whole buffer alive; `bytes(view)` is a copy of its own.

        batch = ds.get_batch([3, 1, 2])
        numpy.frombuffer(batch[0], "uint8")
    """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> memoryview: ...  # type: ignore[override]
    def __iter__(self) -> Iterator[memoryview]: ...
    @property
    def data(self) -> list[memoryview]:
        """All views."""
    @property
    def ids(self) -> list[int]:
        """The ids of the items that these bytes are."""
    @property
    def asked(self) -> list[int]:
        """The ids that were asked for: others than `ids` only for a job that takes substitutes."""
    @property
    def labels(self) -> list[int | None]:
        """The classes of the items, where the layout has classes."""
    @property
    def sources(self) -> list[str]:
        """Each one from: "mem", "ssd", "hdd", "prefetched", "joined", "peer", "origin", "bypass", "substituted"."""
    @property
    def deliveries(self) -> list[str]:
        """How each relates to a job's plan: "planned", "reordered", "substituted", "pad"; "" if no job asked."""
    @property
    def nbytes(self) -> int:
        """Bytes of all items."""

class Node:
    """A client of one node, or of whichever answers of several in one cluster. Safe for threads, and for forked
    children: each process makes connections of its own.

    A call during which the node is away is made again, at the next one if there are several, until `patience` seconds
    have passed; one that gets no answer fails after `timeout`. `revive` is a command that has the node again. Where
    there are several, or `others` that whoever asks would turn to, one that hangs is given up after a few seconds.
    """

    def __init__(
        self,
        addresses: list[str],
        *,
        timeout: float = 30.0,
        patience: float = 30.0,
        revive: list[str] = ...,
        others: bool = False,
    ) -> None: ...
    @property
    def address(self) -> str: ...
    def ping(self, at: int = 0) -> None: ...
    def open(self, dataset: str, snapshot: str) -> tuple[str, int, int]: ...
    def get(self, dataset: str, snapshot: str, ids: Sequence[int]) -> Batch: ...
    def get_one(self, dataset: str, snapshot: str, id: int) -> tuple[bytes, int | None]: ...
    def held_leases(self) -> int: ...
    def close_inherited_leases(self) -> None: ...
    def read(self, dataset: str, snapshot: str, path: str, offset: int, length: int) -> bytes: ...
    def datasets(self) -> list[dict[str, Any]]: ...
    def refresh(self, dataset: str, confirm_removals: bool) -> tuple[str, int]: ...
    def evict(self, dataset: str, prefix: str) -> dict[str, Any]: ...
    def list_items(self, dataset: str, snapshot: str, names: bool) -> tuple[bytes, bytes, list[str], list[str]]: ...
    def list_directory(self, dataset: str, path: str) -> list[tuple[str, bool, int, int | None, str]]: ...
    def lookup(self, dataset: str, path: str) -> tuple[str, bool, int, int | None, str]: ...
    def warm(
        self,
        dataset: str,
        path: str,
        told: Callable[[dict[str, Any]], object],
        *,
        max_bytes: int | None = None,
        bytes_per_second: int = 0,
        workers: int = 0,
    ) -> dict[str, Any]: ...
    def introduce(
        self,
        dataset: str,
        name: str,
        *,
        mode: str = "strict",
        window: int = 0,
        max_fraction: float = 0.1,
        same_class: bool = True,
        max_repeats: int = 2,
        world: int = 1,
        uneven: str = "pad",
        weight: float = 1.0,
        in_step: str = "",
    ) -> tuple[int, str, int]: ...
    def begin_epoch(
        self,
        dataset: str,
        job: int,
        rank: int,
        epoch: int,
        *,
        seed: int | None = None,
        ids: bytes | None = None,
        receipt: bytes | None = None,
        consumed: bytes | None = None,
    ) -> tuple[int, str, dict[str, Any] | None, bytes]: ...
    def next_batch(
        self, dataset: str, snapshot: str, job: int, epoch: int, rank: int, number: int, count: int
    ) -> Batch: ...
    def acknowledge(
        self, dataset: str, job: int, epoch: int, rank: int, numbers: list[int], receipt: bool = False
    ) -> bytes: ...
    def consumed(self, dataset: str, job: int, epoch: int, ids: bytes) -> None: ...
    def report_scores(self, dataset: str, job: int, scores: bytes, ids: bytes | None = None) -> int: ...
    def report_embeddings(self, dataset: str, job: int, dimension: int, ids: bytes, values: bytes) -> int: ...
    def checkpoint(self, dataset: str, job: int) -> bytes: ...
    def resume(
        self,
        dataset: str,
        job: int,
        checkpoint: bytes,
        world: int,
        rank: int,
        ids: bytes | None = None,
        attempt: int = 0,
        nonce: int = 0,
    ) -> tuple[int, int, int]: ...
    def renew(self, dataset: str, job: int) -> None: ...
    def leave(self, dataset: str, job: int, rank: int) -> dict[str, Any] | None: ...
    def jobs(self, dataset: str) -> list[dict[str, Any]]: ...

class Plan:
    """The order of one epoch, dealt out to ranks, and what of it was taken here. The same arithmetic as at a node."""

    def __init__(
        self,
        snapshot: str,
        items: int,
        epoch: int,
        *,
        seed: int | None = None,
        ids: bytes | None = None,
        world: int = 1,
        uneven: str = "pad",
    ) -> None: ...
    @staticmethod
    def resume(
        checkpoint: bytes, snapshot: str, items: int, *, ids: bytes | None = None, world: int = 1, uneven: str = "pad"
    ) -> Plan: ...
    @property
    def epoch(self) -> int: ...
    def __len__(self) -> int: ...
    def share_of(self, rank: int) -> int:
        """How many items a rank has."""
    def ids(self, rank: int, start: int, count: int) -> tuple[bytes, bytes]:
        """A rank's ids (32 bits each) and for each whether it is a pad (8 bits)."""
    def left(self, rank: int, pads: int) -> tuple[bytes, bytes]:
        """What a rank has not taken, of whose pads it took so many: as `ids`."""
    def take(self, rank: int, asked: Sequence[int], served: Sequence[int], deliveries: Sequence[str]) -> None:
        """A rank's loop took a batch."""
    def checkpoint(self) -> bytes:
        """What is needed to go on after what was taken here."""
    def checkpoint_in_step(self, count: int) -> bytes:
        """What is needed to go on when each rank has taken its first `count` items, in the order planned."""
    def merge(self, checkpoints: list[bytes]) -> bytes:
        """Checkpoints that several ranks made of this epoch, as one."""
    def audit(self) -> dict[str, Any]:
        """What was taken here comes to."""
