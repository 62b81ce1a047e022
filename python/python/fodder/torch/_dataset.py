"""Map-style datasets. A batch is one round trip: `DataLoader` asks for it with `__getitems__`."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from typing import Any, Callable, Union

import torch.utils.data

import fodder
from fodder._fodder import Batch
from fodder.torch._context import annotate, describe_item

_Buffer = Union[bytes, memoryview]


def _dataset(source: Any, **how: Any) -> fodder.Dataset:
    """A dataset as it is given: opened already, or by its origin."""
    if isinstance(source, fodder.Dataset):
        return source
    return fodder.open(source, **how)


class ItemDataset(torch.utils.data.Dataset[Any]):
    """Items of a dataset as `(sample, label)`.

    `source` is a `fodder.Dataset`, or an origin, which is opened with `how` as for `fodder.open`. `transform` is given
    the bytes of an item as a `memoryview`, valid as long as it is kept; without it a sample is `bytes`. A label is -1
    where the layout has none; `target_transform` is given the label.
    """

    def __init__(
        self,
        source: fodder.Dataset | str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        **how: Any,
    ) -> None:
        self.dataset = _dataset(source, **how)
        self.transform = transform
        self.target_transform = target_transform

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        content, label = self.dataset._get_one(index)
        return self._checked(self.dataset._id(index), memoryview(content), label)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return self.samples_of(self.dataset.get_batch(indices))

    def samples_of(self, batch: Batch) -> list[Any]:
        """What a loop is given for items that have arrived."""
        return [self._checked(*item) for item in zip(batch.ids, batch.data, batch.labels)]

    def _checked(self, id: int, view: memoryview, label: int | None) -> Any:
        """A sample. What its decoder or transform raises names the item."""
        try:
            return self._sample(view, -1 if label is None else label)
        except Exception as error:
            annotate(error, f"fodder: {describe_item(self.dataset, id)}, {len(view)} bytes")
            raise

    def _sample(self, view: memoryview, label: int) -> Any:
        sample = self.decode(view)
        return sample, label if self.target_transform is None else self.target_transform(label)

    def decode(self, view: memoryview) -> Any:
        """A sample from the bytes of an item."""
        return bytes(view) if self.transform is None else self.transform(view)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dataset!r})"


class ImageFolder(ItemDataset):
    """Stands in for torchvision's `ImageFolder`: the same order, `samples`, `targets`, `classes` and `class_to_idx`.

    `root` is an origin (a directory, `s3://bucket/train`, …) or a `fodder.Dataset`. `loader` makes an image of an
    item's bytes; the usual one is Pillow's, as RGB. Paths in `samples` are relative to the root.
    """

    def __init__(
        self,
        root: fodder.Dataset | str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        loader: Callable[[_Buffer], Any] | None = None,
        **how: Any,
    ) -> None:
        super().__init__(root, transform, target_transform, **how)
        self.root = root
        self.loader = loader or pil_image
        self._built_for: fodder.Dataset | None = None
        self._built: dict[str, Any] = {}
        if not self.dataset.classes:
            raise FileNotFoundError(f"there are no class directories with images in {self.dataset!r}")

    @property
    def classes(self) -> list[str]:
        """The names of the classes, sorted."""
        return self.dataset.classes

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class."""
        built: dict[str, int] = self._once("class_to_idx", lambda: {name: n for n, name in enumerate(self.classes)})
        return built

    @property
    def targets(self) -> list[int]:
        """The label of each sample."""
        built: list[int] = self._once("targets", lambda: self.dataset.labels.tolist())
        return built

    @property
    def samples(self) -> list[tuple[str, int]]:
        """The path and the label of each sample."""
        built: list[tuple[str, int]] = self._once("samples", lambda: list(zip(self.dataset.names, self.targets)))
        return built

    def _once(self, what: str, build: Callable[[], Any]) -> Any:
        """A list that is built when it is first asked for, and again for another dataset or snapshot."""
        if self._built_for is not self.dataset:
            self._built_for, self._built = self.dataset, {}
        if what not in self._built:
            self._built[what] = build()
        return self._built[what]

    def __getstate__(self) -> dict[str, Any]:
        """Workers build their own lists if they need them."""
        return {**self.__dict__, "_built_for": None, "_built": {}}

    @property
    def imgs(self) -> list[tuple[str, int]]:
        """The same, as torchvision calls it too."""
        return self.samples

    def decode(self, view: memoryview) -> Any:
        image = self.loader(view)
        return image if self.transform is None else self.transform(image)


def pil_image(content: _Buffer) -> Any:
    """An image as torchvision's usual loader gives it."""
    from PIL import Image

    return Image.open(io.BytesIO(content)).convert("RGB")


class TarDataset(ItemDataset):
    """Samples of WebDataset shards, by index: `{"__key__": "0001", "jpg": b"…", "cls": b"7"}`.

    `transform` is given that dictionary. Of a file `0001.seg.png` the key is `0001` and the name `seg.png`.
    """

    def __init__(
        self,
        source: fodder.Dataset | str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        **how: Any,
    ) -> None:
        super().__init__(
            source, transform, **({"layout": "tar", **how} if not isinstance(source, fodder.Dataset) else {})
        )

    def _sample(self, view: memoryview, label: int) -> Any:
        sample = tar_sample(view)
        return sample if self.transform is None else self.transform(sample)


def tar_sample(content: _Buffer) -> dict[str, Any]:
    """The files of one key, which lie behind each other in a shard."""
    sample: dict[str, Any] = {}
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for member in archive:
            if not member.isfile():
                continue
            folder, _, name = member.name.rpartition("/")
            stem, _, extension = name.partition(".")
            sample.setdefault("__key__", f"{folder}/{stem}" if folder else stem)
            file = archive.extractfile(member)
            assert file is not None
            sample[extension] = file.read()
    return sample
