"""Nodes and datasets as a user sees them. Safe to fork, to pickle and to share between threads."""

from __future__ import annotations

import contextlib
import errno
import json
import operator
import os
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from fodder import _program, errors
from fodder._eviction import Eviction
from fodder._fodder import Batch, Node
from fodder._stats import Stats

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Client", "Dataset", "connect", "open"]

_DEFAULT_TCP = "127.0.0.1:18284"

_Settings = tuple[tuple[str, ...], float, float, tuple[str, ...]]

# One for each node and settings, so that everything in a process shares its connections.
_nodes: weakref.WeakValueDictionary[tuple[_Settings, bool], Node] = weakref.WeakValueDictionary()


def _node(settings: _Settings, others: bool = False) -> Node:
    node = _nodes.get((settings, others))
    if node is None:
        addresses, timeout, patience, revive = settings
        node = Node(list(addresses), timeout=timeout, patience=patience, revive=list(revive), others=others)
        _nodes[settings, others] = node
    return node


def _close_inherited_leases() -> None:
    for node in list(_nodes.values()):
        node.close_inherited_leases()


# Otherwise a forked worker would occupy the space of files that were evicted and that its parent has closed.
os.register_at_fork(after_in_child=_close_inherited_leases)


def connect(addr: str | Sequence[str] | None = None, *, timeout: float = 30.0, patience: float = 30.0) -> Client:
    """Connects to a node that runs.

    `addr` is `HOST:PORT` or the path of a Unix socket. Without it: `FODDER_ADDR`, else the node of this host's cache
    directory (`FODDER_CACHE_DIR`, or where `fodder serve` puts it), else 127.0.0.1:18284. An error says what was tried.

    Of several nodes of one cluster give a list, or all in one with commas between them, the nearest first. The first
    that answers is asked, and the others when it is gone: a loop over a `fodder.torch.Loader` goes on at another node
    with exactly what it has not had.

    A call that gets no answer for `timeout` seconds fails. A node that goes away, because it restarts, is waited for
    `patience` seconds. Of several nodes, one that hangs is given up after a few seconds; one that is slow is not.
    """
    tried = []
    for addresses in _candidates(addr):
        client = Client(addresses, timeout=timeout, patience=patience)
        for place, address in enumerate(addresses):
            try:
                client._node.ping(place)
                return client
            except (errors.Unavailable, errors.Denied) as error:
                if isinstance(error, errors.Denied) and len(addresses) == 1:
                    raise
                reason = str(error).removeprefix(f"cannot reach the node at {address}: ")
                tried.append(f"  {address}: {reason.split('; check that')[0]}")
    raise errors.Unavailable(
        "no node answers; start one with `fodder serve ORIGIN`, or give its address. Tried:\n" + "\n".join(tried)
    )


def _candidates(addr: str | Sequence[str] | None) -> list[tuple[str, ...]]:
    addr = addr or os.environ.get("FODDER_ADDR")
    if addr:
        return [_addresses(addr)]
    folder = _cache_dir()
    socket = folder / "fodder.sock"
    with contextlib.suppress(OSError, ValueError):
        socket = Path(json.loads((folder / "LOCK").read_text()).get("socket") or socket)
    candidates: list[tuple[str, ...]] = [(f"unix:{socket}",)]
    # A directory that was named means that directory's node and no other.
    return candidates if os.environ.get("FODDER_CACHE_DIR") else [*candidates, (_DEFAULT_TCP,)]


def _addresses(addr: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(addr, str):
        return tuple(addr)
    # A path may have a comma.
    if "," not in addr or os.path.exists(addr.removeprefix("unix:")):
        return (addr,)
    return tuple(part.strip() for part in addr.split(",") if part.strip())


def _cache_dir() -> Path:
    named, xdg = os.environ.get("FODDER_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME", "")
    if named:
        return Path(named).absolute()
    if os.path.isabs(xdg):
        return Path(xdg) / "fodder"
    return Path("/var/cache/fodder") if os.geteuid() == 0 else Path.home() / ".cache" / "fodder"


def open(
    origin: str | os.PathLike[str],
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    cache_size: str | None = None,
    name: str | None = None,
    layout: str | None = None,
    policy: str | None = None,
    refresh: str | None = None,
    anonymous: bool = False,
    timeout: float = 30.0,
    patience: float = 30.0,
) -> Dataset:
    """Opens a dataset by its origin, through this host's node.

    If a node runs for the cache directory it is joined, else one is started; a node that was started so ends some
    seconds after its last user. Any number of processes may do this at once: eight ranks share one node.

    `origin` is a URI (`s3://`, `gs://`, `az://`, `http://`, …) or a directory. `cache_size` is for a node that
    has to be started (`"20GiB"`), or a share of the dataset that may be cached (`"20%"`), which as `layout` (`"files"`,
    `"tar"`, `"tfrecord"`, `"blocks"`) and `policy` is for a dataset that the node does not have yet.
    """
    text = os.fspath(origin)
    # A path is what looks like one, or is there: `fodder.open("data")`.
    if "://" not in text and not text.startswith(("/", ".", "~", "throttled:")):
        text = os.path.join(".", text)
    command = [_program.find(), "join", text]
    flags = {
        "--cache-dir": None if cache_dir is None else os.path.abspath(os.fspath(cache_dir)),
        "--cache-size": cache_size,
        "--name": name,
        "--layout": layout,
        "--policy": policy,
        "--refresh": refresh,
    }
    for flag, value in flags.items():
        if value is not None:
            command += [flag, str(value)]
    if anonymous:
        command.append("--anonymous")
    is_local = "://" not in text and not text.startswith("throttled:")
    try:
        address, dataset = _program.join(command)
    except errors.Unavailable as error:
        # Not before: a node that has the dataset cached serves it also while its directory is away.
        if is_local and not os.path.exists(os.path.expanduser(text)):
            raise errors.OriginNotFound(
                errno.ENOENT, "the origin does not exist: no such file or directory", text
            ) from error
        raise
    # A relative origin must mean the same when the node is started again from elsewhere.
    if is_local:
        command[2] = os.path.abspath(os.path.expanduser(text))
    client = Client(address, timeout=timeout, patience=patience, revive=tuple(command))
    return client.dataset(dataset)


class Client:
    """A node, or several of one cluster. Made by `connect`; cheap to pickle, and connected anew in each process."""

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        timeout: float = 30.0,
        patience: float = 30.0,
        revive: tuple[str, ...] = (),
    ) -> None:
        self._settings: _Settings = (_addresses(address), timeout, patience, revive)
        self._node = _node(self._settings)
        self._each: dict[str, Node] = {}

    @property
    def address(self) -> str:
        """Where the node listens; of several nodes all, with commas between them."""
        return ",".join(self._settings[0])

    def _at(self, address: str) -> Node:
        """One of the nodes, for what is to be said to that one. Where there are others it is not waited for."""
        addresses, timeout, _, revive = self._settings
        if len(addresses) == 1:
            return self._node
        if address not in self._each:
            self._each[address] = _node(((address,), timeout, 0.0, revive), others=True)
        return self._each[address]

    def datasets(self) -> list[str]:
        """The names of the node's datasets."""
        return [status["name"] for status in self._node.datasets()]

    def dataset(self, name: str) -> Dataset:
        """A dataset of the node, as it is now: its ids mean the same as long as this object is used."""
        try:
            snapshot, items, _ = self._node.open(name, "")
        except errors.NotFound:
            known = ", ".join(self.datasets()) or "none; add one with `fodder datasets add ORIGIN`"
            raise errors.NotFound(f"there is no dataset {name!r}; the node at {self.address} has: {known}") from None
        return Dataset(self, name, snapshot, items)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_client, self._settings)

    def __repr__(self) -> str:
        return f"fodder.Client({self.address!r})"


def _client(addresses: tuple[str, ...], timeout: float, patience: float, revive: tuple[str, ...]) -> Client:
    return Client(addresses, timeout=timeout, patience=patience, revive=revive)


class Dataset(Sequence[bytes]):
    """A dataset at one snapshot: item `i` is the same bytes as long as this object is used.

    len(ds), ds[0], ds[-1], ds.get_batch([3, 1, 2]), ds.labels, ds.classes
    """

    def __init__(self, client: Client, name: str, snapshot: str, items: int) -> None:
        self.client = client
        self.name = name
        self.snapshot = snapshot
        self._items = items
        self._listing: _Listing | None = None

    def __len__(self) -> int:
        return self._items

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]
        """The bytes of an item."""
        return self._get_one(index)[0]

    def _get_one(self, index: int) -> tuple[bytes, int | None]:
        """The bytes and the label of an item. A cached file is kept open, and read again without asking the node."""
        return self.client._node.get_one(self.name, self.snapshot, self._id(index))

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, self._items, 64):
            for view in self.get_batch(range(start, min(start + 64, self._items))):
                yield bytes(view)

    def get_batch(self, ids: Sequence[int] | np.ndarray[Any, Any]) -> Batch:
        """Items by id, in the order asked, in one round trip: a sequence of views into one buffer."""
        return self.client._node.get(self.name, self.snapshot, [self._id(index) for index in ids])

    def batches(
        self,
        batch_size: int,
        *,
        seed: int | None = None,
        epoch: int = 0,
        rank: int = 0,
        world: int = 1,
        uneven: str = "pad",
    ) -> Iterator[tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]]:
        """One epoch for a loop without a framework: bytes of each sample as NumPy arrays, and their labels.

        In the order of the ids, or shuffled by `seed` and `epoch` as all of Fodder's samplers do; of several ranks each
        takes its own share. The arrays are views that keep their batch alive.
        """
        import numpy as np

        from fodder._fodder import Plan

        order: dict[str, Any] = {"seed": seed}
        if seed is None:
            order = {"ids": np.arange(self._items, dtype=np.uint32).tobytes()}
        plan = Plan(self.snapshot, self._items, epoch, world=world, uneven=uneven, **order)
        for start in range(0, plan.share_of(rank), batch_size):
            batch = self.get_batch(np.frombuffer(plan.ids(rank, start, batch_size)[0], np.uint32))
            labels = [-1 if label is None else label for label in batch.labels]
            yield [np.frombuffer(view, np.uint8) for view in batch.data], np.array(labels, np.int64)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of an object by its path."""
        if length == 0:
            return b""
        return self.client._node.read(self.name, self.snapshot, path, offset, length or 0)

    @property
    def labels(self) -> np.ndarray[Any, Any]:
        """The class of each item, -1 for those that have none."""
        return self._list(names=False).labels

    @property
    def sizes(self) -> np.ndarray[Any, Any]:
        """Bytes of each item."""
        return self._list(names=False).sizes

    @property
    def classes(self) -> list[str]:
        """The names of the classes, by label."""
        return self._list(names=False).classes

    @property
    def names(self) -> list[str]:
        """What each item is called: the object's path, with `#key` behind it where an object holds several items."""
        return self._list(names=True).names or []

    def warm(
        self,
        path: str = "",
        *,
        max_bytes: int | None = None,
        bytes_per_second: int = 0,
        workers: int = 32,
        progress: bool | Callable[[dict[str, Any]], object] = True,
    ) -> dict[str, Any]:
        """Brings everything in, or what is below `path`, and returns when that is done.

        What is cached already is skipped; interrupted, it goes on where it was when called again. Shows a progress bar
        in a notebook or a terminal; `progress` may be False, or a function that is told how far it is. The result's
        `complete` says whether every byte is there.
        """
        from fodder._progress import bar

        with bar(self.name, progress) as told:
            return self.client._node.warm(
                self.name, path, told, max_bytes=max_bytes, bytes_per_second=bytes_per_second, workers=workers
            )

    def refresh(self, *, confirm_removals: bool = False) -> Dataset:
        """Looks for new, changed and removed objects: the dataset as it is then. This one stays as it is.

        A listing from which everything or more than a configured share is missing is refused with `errors.Conflict`,
        because the origin is probably not mounted. `confirm_removals` accepts it.
        """
        snapshot, items = self.client._node.refresh(self.name, confirm_removals)
        return Dataset(self.client, self.name, snapshot, items)

    def evict(self, prefix: str = "") -> Eviction:
        """Drops what is cached of the objects whose path begins with `prefix`: what that freed, and what it did not.

        Files that a mount or another process has open keep their space until they are closed, and an open
        `fodder.torch.Loader` fetches its plan again with its next batch: the result's `remaining` says so.
        """
        return Eviction(**self.client._node.evict(self.name, prefix))

    def stats(self) -> Stats:
        """How the dataset stands: what is cached, how well it hits."""
        for status in self.client._node.datasets():
            if status["name"] == self.name:
                return Stats(status)
        raise errors.NotFound(f"the node at {self.client.address} has no dataset {self.name!r} any more")

    def jobs(self) -> list[dict[str, Any]]:
        """The training jobs that read it now."""
        return self.client._node.jobs(self.name)

    def _id(self, index: int) -> int:
        place = operator.index(index)
        if place < 0:
            place += self._items
        if 0 <= place < self._items:
            return place
        raise errors.OutOfRange(f"no item {index}: dataset {self.name!r} has {self._items} items, numbered from 0")

    def _list(self, names: bool) -> _Listing:
        if self._listing is None or (names and self._listing.names is None):
            self._listing = _Listing(*self.client._node.list_items(self.name, self.snapshot, names), names)
        return self._listing

    def __reduce__(self) -> tuple[Any, ...]:
        return (Dataset, (self.client, self.name, self.snapshot, self._items))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        return (self.client.address, self.name, self.snapshot) == (other.client.address, other.name, other.snapshot)

    def __hash__(self) -> int:
        return hash((self.client.address, self.name, self.snapshot))

    def __repr__(self) -> str:
        return f"fodder.Dataset({self.name!r}, {self._items} items at {self.client.address})"


class _Listing:
    """What is known of all items."""

    def __init__(self, labels: bytes, sizes: bytes, names: list[str], classes: list[str], named: bool) -> None:
        import numpy as np

        self.labels = np.frombuffer(labels, np.uint32).astype(np.int64) - 1
        self.sizes = np.frombuffer(sizes, np.uint64).astype(np.int64)
        self.classes = classes
        self.names = names if named else None
