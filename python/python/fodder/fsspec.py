"""`fodder://dataset/path`: datasets as a read-only file system for everything that speaks fsspec.

    pandas.read_parquet("fodder://logs/2026/01.parquet")
    fsspec.open("fodder://imagenet/train/dog/1.jpg", addr="127.0.0.1:18284")
    webdataset.gopen_schemes["fodder"] = fodder.fsspec.gopen    # then webdataset.WebDataset("fodder://shards/{0..9}.tar")

Importing this module registers the protocol.

The node is found as by `fodder.connect`; `addr` in the storage options says where it is. Datasets are seen as the node
has them at that moment; an open file stays what it was when it was opened.
"""

from __future__ import annotations

import os
from typing import Any, Optional

import fsspec
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

import fodder
from fodder import errors

__all__ = ["FodderFileSystem", "gopen"]

# As a node tells it: name, whether it is a directory, size, time, and what tells this version from others.
_Told = tuple[str, bool, int, Optional[int], str]


class _Surroundings:
    """What `fodder.connect` heeds besides its arguments: a file system that was made for one node is not another's."""

    def __get__(self, instance: object, owner: type) -> tuple[str | None, ...]:
        return os.environ.get("FODDER_ADDR"), os.environ.get("FODDER_CACHE_DIR")


class FodderFileSystem(AbstractFileSystem):
    """Datasets of a node: the first part of a path names one."""

    protocol = "fodder"
    root_marker = ""
    cachable = True
    _extra_tokenize_attributes = ("_surroundings",)
    _surroundings = _Surroundings()

    def __init__(self, addr: str | None = None, timeout: float = 30.0, patience: float = 30.0, **options: Any) -> None:
        super().__init__(addr=addr, timeout=timeout, patience=patience, **options)
        self._how = (addr, timeout, patience)
        self._client: fodder.Client | None = None

    @property
    def client(self) -> fodder.Client:
        """The node."""
        if self._client is None:
            addr, timeout, patience = self._how
            self._client = fodder.connect(addr, timeout=timeout, patience=patience)
        return self._client

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """The entries of a directory; of the root, the datasets."""
        name, inside = self._split(path)
        if not name:
            entries = [self._directory(dataset) for dataset in self.client.datasets()]
        else:
            entries = self._entries(name, inside)
        return entries if detail else [entry["name"] for entry in entries]

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """What is known of a file or a directory."""
        name, inside = self._split(path)
        if not name:
            return self._directory("")
        if not inside:
            self._dataset(name)
            return self._directory(name)
        return self._find(name, inside)[1]

    def modified(self, path: str) -> Any:
        """When a file was last written, where the origin tells."""
        from datetime import datetime, timezone

        nanoseconds = self.info(path).get("mtime_ns")
        if nanoseconds is None:
            raise NotImplementedError(f"the origin of {path} does not report modification times")
        return datetime.fromtimestamp(nanoseconds / 1e9, timezone.utc)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """The bytes of a file, or some of them."""
        name, inside = self._split(path)
        if start is None and end is None:
            return self._read(self._dataset(name), inside, 0, None)
        dataset, details = self._find(name, inside)
        first, last, _ = slice(start, end).indices(details["size"])
        return self._read(dataset, inside, first, max(0, last - first))

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> _File:
        if mode != "rb":
            raise OSError(30, f"{path}: datasets are read-only")
        options.pop("autocommit", None)
        options.pop("cache_options", None)
        # A file that was pickled brings what it is with it.
        found = options.pop("found", None) or self._find(*self._split(path))
        return _File(self, path, mode, block_size or "default", **{**options, "size": found[1]["size"], "found": found})

    def _split(self, path: str) -> tuple[str, str]:
        name, _, inside = str(self._strip_protocol(path)).strip("/").partition("/")
        return name, inside

    def _dataset(self, name: str) -> fodder.Dataset:
        """A dataset as it is now."""
        try:
            return self.client.dataset(name)
        except errors.NotFound as error:
            raise FileNotFoundError(str(error)) from error

    def _find(self, name: str, inside: str) -> tuple[fodder.Dataset, dict[str, Any]]:
        """A dataset as it is now, and what lies at a path of it."""
        dataset = self._dataset(name)
        while True:
            # The node looks into its newest snapshot, and does not say which that is.
            told = self._ask(dataset, inside)
            now = self._dataset(name)
            if now.snapshot == dataset.snapshot:
                return dataset, self._entry(f"{name}/{inside}", told)
            dataset = now

    def _ask(self, dataset: fodder.Dataset, inside: str) -> _Told:
        try:
            return dataset.client._node.lookup(dataset.name, inside)
        except errors.NotFound as error:
            raise FileNotFoundError(f"{dataset.name}/{inside}") from error

    def _entries(self, name: str, inside: str) -> list[dict[str, Any]]:
        path = f"{name}/{inside}" if inside else name
        dataset = self._dataset(name)
        if inside:
            found = self._ask(dataset, inside)
            if not found[1]:
                return [self._entry(path, found)]
        listed = dataset.client._node.list_directory(name, inside)
        return [self._entry(f"{path}/{entry[0]}", entry) for entry in listed]

    def _read(self, dataset: fodder.Dataset, inside: str, offset: int, length: int | None) -> bytes:
        path = f"{dataset.name}/{inside}"
        try:
            return dataset.read(inside, offset, length)
        except errors.NotFound as error:
            if self.isdir(path):
                raise IsADirectoryError(path) from error
            raise FileNotFoundError(path) from error

    @staticmethod
    def _directory(path: str) -> dict[str, Any]:
        return {"name": path, "size": 0, "type": "directory"}

    def _entry(self, path: str, told: _Told) -> dict[str, Any]:
        _, is_directory, size, modified, tag = told
        if is_directory:
            return self._directory(path)
        # By `ETag` Hugging Face tells whether what it made of a file is still good.
        return {"name": path, "size": size, "type": "file", "mtime_ns": modified, "ETag": tag}


class _File(AbstractBufferedFile):
    """An open file, of the snapshot that it was found in. fsspec reads ahead; the node has it cached."""

    def __init__(self, *args: Any, found: tuple[fodder.Dataset, dict[str, Any]], **options: Any) -> None:
        super().__init__(*args, **options, found=found)
        self._dataset, self.details = found

    def _fetch_range(self, start: int, end: int) -> bytes:
        _, inside = self.fs._split(self.path)
        return bytes(self.fs._read(self._dataset, inside, start, max(0, min(end, self.size) - start)))


# The entry point of the package registers it where the package is installed; importing this module suffices as well.
fsspec.register_implementation("fodder", FodderFileSystem, clobber=True)


def gopen(url: str, mode: str = "rb", bufsize: int = 8192, **options: Any) -> Any:
    """Opens a shard as WebDataset wants it of those who serve a scheme. `FODDER_ADDR` says where the node is."""
    return FodderFileSystem(**options).open(url, mode)
