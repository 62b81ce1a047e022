"""What runs in workers: a ticket becomes a batch. It knows nothing of what a loop takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, NamedTuple

import numpy as np
import torch.utils.data

import fodder
from fodder import errors
from fodder._fodder import Batch
from fodder.torch._context import annotate
from fodder.torch._dataset import ItemDataset
from fodder.torch._source import LocalDataset


class Ticket(NamedTuple):
    """What a worker needs to fetch a batch."""

    address: str
    job: int | None
    epoch: int
    rank: int
    number: int
    size: int
    ids: bytes | None
    pads: bytes | None
    indices: bytes | None = None
    """What to read, if `ids` are places in a list and not items."""


class Read(NamedTuple):
    """What was read by index: the part of a `Batch` that a parcel needs."""

    ids: list[int]
    asked: list[int]
    sources: list[str]


class Parcel:
    """A batch on its way from a worker to the loop."""

    def __init__(self, ticket: Ticket, batch: Batch | Read, deliveries: list[str], by_id: bool, data: Any) -> None:
        self.number, self.by_id, self.data = ticket.number, by_id, data
        self.ids, self.asked, self.deliveries, self.sources = batch.ids, batch.asked, deliveries, batch.sources

    def pin_memory(self) -> Parcel:
        from torch.utils.data._utils.pin_memory import pin_memory

        self.data = pin_memory(self.data)
        return self


class Fetch(torch.utils.data.Dataset[Parcel]):
    """What runs in workers: a ticket becomes a batch."""

    def __init__(self, dataset: ItemDataset | LocalDataset, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset, self.collate = dataset, collate

    def __getitem__(self, ticket: Ticket) -> Parcel:
        if ticket.indices is not None:
            return self._read(ticket, np.frombuffer(ticket.indices, np.uint32).tolist())
        assert isinstance(self.dataset, ItemDataset)
        batch, by_id = self._fetch(ticket, self.dataset.dataset)
        deliveries = batch.deliveries
        if by_id and ticket.pads is not None:
            deliveries = ["pad" if pad else "planned" for pad in ticket.pads]
        samples = self.dataset.samples_of(batch)
        try:
            data = self.collate(samples)
        except Exception as error:
            annotate(
                error, f"fodder: batch {ticket.number}, items {batch.ids} of dataset {self.dataset.dataset.name!r}"
            )
            raise
        return Parcel(ticket, batch, deliveries, by_id, data)

    def _read(self, ticket: Ticket, index: list[int]) -> Parcel:
        """Reads by index, without a job."""
        if isinstance(self.dataset, ItemDataset):
            items = self.dataset.dataset.get_batch(index)
            samples, sources = self.dataset.samples_of(items), items.sources
        else:
            samples, sources = self.dataset.read(index), []
        asked = np.frombuffer(ticket.ids or b"", np.uint32).tolist()
        deliveries = ["pad" if pad else "planned" for pad in ticket.pads or b""]
        return Parcel(ticket, Read(index, asked, sources), deliveries, True, self.collate(samples))

    def _fetch(self, ticket: Ticket, source: fodder.Dataset) -> tuple[Batch, bool]:
        if ticket.job is not None:
            try:
                where = (ticket.job, ticket.epoch, ticket.rank, ticket.number, ticket.size)
                node = source.client._at(ticket.address)
                return node.next_batch(source.name, source.snapshot, *where), False
            except errors.NotFound:
                # The node was restarted and knows no job; in strict mode it is known here what it would have said.
                if ticket.ids is None:
                    raise
        if ticket.ids is None:
            raise errors.NotFound("this rank has already left its job")
        return source.client._node.get(
            source.name, source.snapshot, np.frombuffer(ticket.ids, np.uint32).tolist()
        ), True


class OnlySample:
    """Converts the only sample of a batch: for `batch_size=None`."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self.convert = convert

    def __call__(self, samples: list[Any]) -> Any:
        return self.convert(samples[0])


class Tickets(torch.utils.data.Sampler[Ticket]):
    """The batches of the epoch that the loader is in."""

    def __init__(self) -> None:
        self.tickets: Callable[[], Iterator[Ticket]] = lambda: iter(())

    def __iter__(self) -> Iterator[Ticket]:
        return self.tickets()


def as_it_is(parcel: Parcel) -> Parcel:
    """What torch is to collate was collated."""
    return parcel
