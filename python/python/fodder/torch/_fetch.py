"""What runs in workers: a ticket becomes a batch. It knows nothing of what a loop takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, NamedTuple

import numpy as np
import torch.utils.data

from fodder import errors
from fodder._fodder import Batch
from fodder.torch._dataset import ItemDataset


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


class Parcel:
    """A batch on its way from a worker to the loop."""

    def __init__(self, ticket: Ticket, batch: Batch, deliveries: list[str], by_id: bool, data: Any) -> None:
        self.number, self.by_id, self.data = ticket.number, by_id, data
        self.ids, self.asked, self.deliveries, self.sources = batch.ids, batch.asked, deliveries, batch.sources

    def pin_memory(self) -> Parcel:
        from torch.utils.data._utils.pin_memory import pin_memory

        self.data = pin_memory(self.data)
        return self


class Fetch(torch.utils.data.Dataset[Parcel]):
    """What runs in workers: a ticket becomes a batch."""

    def __init__(self, dataset: ItemDataset, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset, self.collate = dataset, collate

    def __getitem__(self, ticket: Ticket) -> Parcel:
        batch, by_id = self._fetch(ticket)
        deliveries = batch.deliveries
        if by_id and ticket.pads is not None:
            deliveries = ["pad" if pad else "planned" for pad in ticket.pads]
        return Parcel(ticket, batch, deliveries, by_id, self.collate(self.dataset.samples_of(batch)))

    def _fetch(self, ticket: Ticket) -> tuple[Batch, bool]:
        source = self.dataset.dataset
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
            raise errors.NotFound("this rank has left its job")
        return source.client._node.get(
            source.name, source.snapshot, np.frombuffer(ticket.ids, np.uint32).tolist()
        ), True


class Tickets(torch.utils.data.Sampler[Ticket]):
    """The batches of the epoch that the loader is in."""

    def __init__(self) -> None:
        self.tickets: Callable[[], Iterator[Ticket]] = lambda: iter(())

    def __iter__(self) -> Iterator[Ticket]:
        return self.tickets()


def as_it_is(parcel: Parcel) -> Parcel:
    """What torch is to collate was collated."""
    return parcel
