"""Which of how many ranks this process is: as told, else as torch.distributed or the launcher's environment says."""

from __future__ import annotations

import os

import torch.distributed as dist

from fodder.torch._attempt import drawn_by_all


def rank_and_world(rank: int | None = None, world: int | None = None) -> tuple[int, int]:
    """The rank of this process and the number of ranks."""
    if rank is not None or world is not None:
        rank, world = rank or 0, world if world is not None else 1
        if not 0 <= rank < world:
            raise ValueError(f"no rank {rank}: the job has {world} ranks, numbered from 0")
        return rank, world
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


_serial = 0


def job_name(world: int) -> str:
    """What to call a job that was given no name: the same on all of its ranks, another for another run.

    That it is another is what its ranks have drawn. Where nothing joins them they have drawn nothing: there the name is
    what their launcher calls the run, and a later run may be called so too.
    """
    global _serial
    run, drawn = _run(), drawn_by_all(world)
    if drawn is not None:
        label = run or (str(os.getpid()) if world == 1 else "")
        return "-".join(part for part in ("python" if world == 1 else "torch", label, f"{drawn % 2**32:08x}") if part)
    where = run or os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    if not any(where):
        raise ValueError("a job of several ranks needs a name that all of them give: job='...'")
    _serial += 1
    return "-".join(part for part in ("torch", *where, str(_serial)) if part)


def _run() -> str:
    """What the launcher calls this run on all of its ranks, if it does. Nothing says that no other is called so."""
    named = os.environ.get("TORCHELASTIC_RUN_ID", "")
    # torchrun says "none" where nobody has named the run.
    if named not in ("", "none"):
        return named
    job, restarts = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_RESTART_COUNT", "")
    # The parts of a heterogeneous job have numbers of their own.
    return "" if "SLURM_HET_SIZE" in os.environ else job + (f".{restarts}" if job and restarts else "")
