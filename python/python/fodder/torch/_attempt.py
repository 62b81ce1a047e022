"""Which start of a job this is: a number that all of its ranks share, and those of no other start have.

Ranks share what they draw through the store by which torch.distributed has found them: that needs no device, as a
collective would, and no order among the other collectives of a training script.
"""

from __future__ import annotations

import hashlib
import os
import secrets

import torch.distributed as dist

from fodder._fodder import Node


def attempt_of(world: int) -> int:
    """The number of this start, or 0 where its ranks have nothing in common that another start has not.

    A rank that is alone draws one. Ranks that torch.distributed joins take the one that their first has drawn: all of
    them resume, and so all of them are here. Else Slurm tells a job from others, and how often it was requeued.

    A number that two starts share is as good as none; one that ranks of a start do not share would part them. So the
    launcher's count of restarts is not used: each of torchrun's agents has its own.
    """
    drawn = drawn_by_all(world)
    if drawn is not None:
        return drawn
    job = os.environ.get("SLURM_JOB_ID")
    if job is None or "SLURM_HET_SIZE" in os.environ:
        return 0
    start = f"{job} {os.environ.get('SLURM_RESTART_COUNT', '0')}"
    return int.from_bytes(hashlib.blake2b(start.encode(), digest_size=8).digest(), "big") or 1


def drawn_by_all(world: int) -> int | None:
    """A number that all ranks have and nobody else, another each time they ask; None where nothing joins them.

    Of ranks that torch.distributed joins, all must ask: the first draws, and the others wait for it.
    """
    if world == 1:
        return _drawn()
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() == world):
        return None
    store, rank = dist.distributed_c10d._get_default_store(), dist.get_rank()
    if store is None:
        # Those of MPI have none.
        return None
    time = store.add(f"fodder/asked/{rank}", 1)
    if rank == 0:
        store.set(f"fodder/drawn/{time}", str(_drawn()))
    return int(store.get(f"fodder/drawn/{time}"))


class Start:
    """A start of a rank from a checkpoint. Saying it again, to another node, is no other start."""

    def __init__(self, checkpoint: bytes, attempt: int) -> None:
        self._checkpoint, self._attempt, self._nonce = checkpoint, attempt, _drawn()

    def resume(self, node: Node, dataset: str, job: int, world: int, rank: int, ids: bytes | None) -> int:
        """The job goes on from there: its number from now on."""
        which = self._attempt, self._nonce
        job, _, _ = node.resume(dataset, job, self._checkpoint, world, rank, ids, *which)
        return job


def _drawn() -> int:
    return secrets.randbits(63) + 1
