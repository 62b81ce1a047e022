"""Which of how many ranks this process is: as told, else as torch.distributed or the launcher's environment says."""

from __future__ import annotations

import os

import torch.distributed as dist


def rank_and_world(rank: int | None = None, world: int | None = None) -> tuple[int, int]:
    """The rank of this process and the number of ranks."""
    if rank is not None or world is not None:
        rank, world = rank or 0, world if world is not None else 1
        if not 0 <= rank < world:
            raise ValueError(f"there is no rank {rank} in a world of {world}, counted from 0")
        return rank, world
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


_serial = 0


def job_name(world: int) -> str:
    """What to call a job that was given no name: the same on all of its ranks, another for another run."""
    global _serial
    _serial += 1
    run = os.environ.get("TORCHELASTIC_RUN_ID") or os.environ.get("SLURM_JOB_ID")
    if world == 1:
        return f"python-{run or os.getpid()}-{_serial}"
    run = run if run and run != "none" else f"{os.environ.get('MASTER_ADDR', '')}-{os.environ.get('MASTER_PORT', '')}"
    if run.strip("-") == "":
        raise ValueError("a job of several ranks needs a name that all of them give: job='...'")
    return f"torch-{run}-{_serial}"
