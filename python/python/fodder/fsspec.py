"""`fodder://dataset/path`: datasets as a read-only file system for everything that speaks fsspec.

    pandas.read_parquet("fodder://logs/2026/01.parquet")
    fsspec.open("fodder://imagenet/train/dog/1.jpg", addr="127.0.0.1:18284")
    webdataset.gopen_schemes["fodder"] = fodder.fsspec.gopen    # then webdataset.WebDataset("fodder://shards/{0..9}.tar")

The node is found as by `fodder.connect`; `addr` in the storage options says where it is. A dataset is seen as it was
when the file system first touched it; `invalidate_cache` looks again.
"""

from __future__ import annotations

import os
from typing import Any

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

import fodder
from fodder import errors

__all__ = ["FodderFileSystem", "gopen"]


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
        self._datasets: dict[str, fodder.Dataset] = {}

    @property
    def client(self) -> fodder.Client:
        """The node."""
        if self._client is None:
            addr, timeout, patience = self._how
            self._client = fodder.connect(addr, timeout=timeout, patience=patience)
        return self._client

    def invalidate_cache(self, path: str | None = None) -> None:
        """Sees datasets anew, as they are now."""
        self._datasets.clear()
        super().invalidate_cache(path)

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
        return self._entry(f"{name}/{inside}", self._ask(name, inside))

    def modified(self, path: str) -> Any:
        """When a file was last written, where the origin tells."""
        from datetime import datetime, timezone

        nanoseconds = self.info(path).get("mtime_ns")
        if nanoseconds is None:
            raise NotImplementedError(f"the origin of {path} does not tell when files were written")
        return datetime.fromtimestamp(nanoseconds / 1e9, timezone.utc)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """The bytes of a file, or some of them."""
        name, inside = self._split(path)
        if start is not None or end is not None:
            size = self.info(path)["size"]
            first, last, _ = slice(start, end).indices(size)
            return self._read(name, inside, first, max(0, last - first))
        return self._read(name, inside, 0, None)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> _File:
        if mode != "rb":
            raise OSError(30, f"{path}: datasets are read-only")
        options.pop("autocommit", None)
        options.pop("cache_options", None)
        return _File(self, path, mode, block_size or "default", **options)

    def _split(self, path: str) -> tuple[str, str]:
        name, _, inside = str(self._strip_protocol(path)).strip("/").partition("/")
        return name, inside

    def _dataset(self, name: str) -> fodder.Dataset:
        dataset = self._datasets.get(name)
        if dataset is None:
            try:
                dataset = self._datasets[name] = self.client.dataset(name)
            except errors.NotFound as error:
                raise FileNotFoundError(str(error)) from error
        return dataset

    def _ask(self, name: str, inside: str) -> tuple[str, bool, int, int | None, str]:
        node = self._dataset(name).client._node
        try:
            return node.lookup(name, inside)
        except errors.NotFound as error:
            raise FileNotFoundError(f"{name}/{inside}") from error

    def _entries(self, name: str, inside: str) -> list[dict[str, Any]]:
        path = f"{name}/{inside}" if inside else name
        if inside:
            found = self._ask(name, inside)
            if not found[1]:
                return [self._entry(path, found)]
        listed = self._dataset(name).client._node.list_directory(name, inside)
        return [self._entry(f"{path}/{entry[0]}", entry) for entry in listed]

    def _read(self, name: str, inside: str, offset: int, length: int | None) -> bytes:
        try:
            return self._dataset(name).read(inside, offset, length)
        except errors.NotFound as error:
            if self.isdir(f"{name}/{inside}"):
                raise IsADirectoryError(f"{name}/{inside}") from error
            raise FileNotFoundError(f"{name}/{inside}") from error

    @staticmethod
    def _directory(path: str) -> dict[str, Any]:
        return {"name": path, "size": 0, "type": "directory"}

    def _entry(self, path: str, entry: tuple[str, bool, int, int | None, str]) -> dict[str, Any]:
        _, is_directory, size, modified, tag = entry
        if is_directory:
            return self._directory(path)
        # By `ETag` Hugging Face tells whether what it made of a file is still good.
        return {"name": path, "size": size, "type": "file", "mtime_ns": modified, "ETag": tag}


class _File(AbstractBufferedFile):
    """An open file. fsspec reads ahead; the node has it cached."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(self.fs.cat_file(self.path, start, end))


def gopen(url: str, mode: str = "rb", bufsize: int = 8192, **options: Any) -> Any:
    """Opens a shard as WebDataset wants it of those who serve a scheme. `FODDER_ADDR` says where the node is."""
    return FodderFileSystem(**options).open(url, mode)
