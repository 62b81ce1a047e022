"""Ranks as processes of their own, with torch.distributed between them."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import fodder
import pytest
from conftest import wait_for

torch = pytest.importorskip("torch", reason="torch is not installed")

import fodder.torch as ft  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from fodder.torch._attempt import attempt_of  # noqa: E402
from fodder.torch._rank import job_name  # noqa: E402

if not (dist.is_available() and dist.is_gloo_available()):
    pytest.skip("this torch has no gloo", allow_module_level=True)


def first_byte(view):
    return torch.tensor([float(view[0]), float(len(view))])


def train(rank, world, address, folder):
    """Two ranks with DDP: a whole epoch, then half of one that is saved, then losses that are shared."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    dataset = ft.ItemDataset(fodder.connect(address).dataset("pets"), first_byte)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    loader = ft.Loader(dataset, batch_size=5, mode=ft.Reorder(8), job="ranks", num_workers=1)
    assert (loader.rank, loader.world) == (rank, world)
    seen = []
    for samples, _ in loader:
        model(samples).sum().backward()
        seen += loader.ids
    assert loader.audits[0].exact
    batches = iter(loader)
    taken = []
    for _ in range(2):
        model(next(batches)[0]).sum().backward()
        taken += loader.ids
    state = loader.state_dict()
    sampler = ft.ImportanceSampler(dataset, warm_up=1, reuse_factor=100, beta=1.0, seed=1)
    important = ft.Loader(dataset, batch_size=5, sampler=sampler, job="important")
    for _ in important:
        important.report(losses=torch.tensor([float(index) for index in important.ids]))
    shared = sampler.order(1)["ids"]
    attempts = [attempt_of(world) for _ in range(2)]
    saved = {"seen": seen, "taken": taken, "state": state, "shared": shared, "attempts": attempts}
    torch.save(saved, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


WORLDS = [1, 2, 3, 4]


def phase(folder, name, rank, world):
    """Makes this process one of so many ranks for a while."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/{name}", rank=rank, world_size=world)


def change_worlds(rank, address, folder, mode):
    """Half an epoch on every number of ranks, and its rest on every other: what this rank was given."""
    dataset = ft.ItemDataset(fodder.connect(address).dataset("pets"), first_byte)
    given = {}

    def loader_of(world, job):
        return ft.Loader(dataset, batch_size=2, mode=mode, job=job, rank=rank, world=world, seed=world)

    for before in WORLDS:
        state_file = Path(folder) / f"state-{before}"
        if rank < before:
            phase(folder, f"before-{before}", rank, before)
            loader = loader_of(before, f"change-{before}")
            batches = iter(loader)
            given[before] = [index for _ in range(2) if next(batches) for index in loader.ids]
            state = loader.state_dict()
            if rank == 0:
                torch.save(state, f"{state_file}.new")
                os.rename(f"{state_file}.new", state_file)
            loader.close()
            dist.barrier()
            dist.destroy_process_group()
        wait_for("the state", state_file.exists)
        for after in WORLDS:
            if rank < after:
                phase(folder, f"after-{before}-{after}", rank, after)
                loader = loader_of(after, f"change-{before}-{after}")
                loader.load_state_dict(torch.load(state_file, weights_only=False))
                rest = [index for _ in loader for index in loader.ids]
                assert loader.audits[0].exact
                given[before, after] = (rest, loader.audits[0].pads)
                dist.barrier()
                dist.destroy_process_group()
    torch.save(given, f"{folder}/{rank}.pt")


@pytest.mark.parametrize("mode", [ft.Strict(), ft.Reorder(6)], ids=["strict", "reorder"])
def test_an_epoch_goes_on_on_any_other_number_of_ranks(data, node, tmp_path, mode):
    mp.start_processes(change_worlds, (node.address, str(tmp_path), mode), nprocs=4, start_method="spawn")
    ranks = [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(4)]
    for before in WORLDS:
        taken = [index for rank in ranks for index in rank.get(before, [])]
        assert len(taken) == 4 * before
        for after in WORLDS:
            parts = [rank[before, after] for rank in ranks if (before, after) in rank]
            seen = taken + [index for rest, _ in parts for index in rest]
            pads = sum(pads for _, pads in parts)
            assert set(seen) == set(range(len(data))) and len(seen) == len(data) + pads
            assert len(parts) == after and len({len(rest) for rest, _ in parts}) == 1


def test_two_ranks_train_resume_on_one_and_share_losses(pets, data, node, tmp_path):
    mp.start_processes(train, (2, node.address, str(tmp_path)), nprocs=2, start_method="spawn")
    left, right = (torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(2))
    assert sorted(left["seen"] + right["seen"]) == list(range(len(data)))
    # Every rank has the same state, and one rank alone goes on from it.
    assert left["state"]["checkpoint"] == right["state"]["checkpoint"]
    alone = ft.Loader(ft.ItemDataset(pets, first_byte), batch_size=5, mode=ft.Reorder(8), rank=0, world=1)
    alone.load_state_dict(left["state"])
    rest = [index for _ in alone for index in alone.ids]
    assert sorted(left["taken"] + right["taken"] + rest) == list(range(len(data)))
    # Both know the number of their start, which is another the next time.
    assert left["attempts"] == right["attempts"] and len({0, *left["attempts"]}) == 3
    # Both planned the same epoch out of all losses.
    assert left["shared"] == right["shared"] and len(left["shared"]) < 4 * len(data)


def run(rank, world, address, folder, name, state, passes):
    """A run as everybody launches it: takes so many batches in each pass, is saved behind the first, and killed."""
    os.environ.update(TORCHELASTIC_RUN_ID="none", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    if world > 1:
        phase(folder, name, rank, world)
    loader = ft.Loader(ft.ItemDataset(fodder.connect(address).dataset("pets"), first_byte), rank=rank, world=world)
    if state is not None:
        loader.load_state_dict(torch.load(f"{folder}/{state}.0", weights_only=False)["state"])
    given = [index for _ in itertools.islice(loader, passes[0]) for index in loader.ids]
    saved = {"given": given, "state": loader.state_dict()}
    for count in passes[1:]:
        assert len(list(itertools.islice(loader, count))) == count
    torch.save({**saved, "job": loader._job.name}, f"{folder}/{name}.{rank}")
    if world > 1:
        dist.barrier()
    os._exit(0)


@pytest.mark.parametrize("world", [1, 2])
def test_a_run_that_was_killed_is_not_in_the_way_of_the_next(pets, data, node, tmp_path, world):
    def launch(name, *passes, state=None):
        args = (world, node.address, str(tmp_path), name, state, passes)
        mp.start_processes(run, args, nprocs=world, start_method="fork")
        ranks = [torch.load(tmp_path / f"{name}.{rank}", weights_only=False) for rank in range(world)]
        (job,) = {rank["job"] for rank in ranks}
        return [index for rank in ranks for index in rank["given"]], job

    everything = list(range(len(data)))
    # Some of it is acknowledged.
    _, first = launch("first", 17)
    given, second = launch("second", None, 17)
    assert sorted(given) == everything
    # It was saved before the epoch that it was killed in.
    given, third = launch("third", None, state="second")
    assert sorted(given) == everything
    # What was saved in the middle of an epoch is the job that goes on.
    begun, fourth = launch("fourth", 5)
    rest, again = launch("again", None, state="fourth")
    assert sorted(begun + rest) == everything and again == fourth
    names = [job["name"] for job in pets.jobs()]
    assert [names.count(name) for name in (first, second, third, fourth)] == [1] * 4


def test_a_job_without_a_name_has_one_that_no_other_run_has(monkeypatch):
    for name in ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in [("PATH", os.environ["PATH"]), ("SLURM_JOB_ID", "17"), ("TORCHELASTIC_RUN_ID", "none")]:
        monkeypatch.setenv(name, value)
        assert job_name(1) != job_name(1), "runs that have everything in common"
    # Where nothing joins the ranks they are called as their launcher says, which all of them hear.
    assert job_name(2).startswith("torch-17-")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert job_name(2).startswith("torch-17-29500-")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert job_name(2).startswith("torch-17.1-29500-")
    for name in ("SLURM_JOB_ID", "MASTER_PORT"):
        monkeypatch.delenv(name)
    with pytest.raises(ValueError, match="needs a name"):
        job_name(2)


def test_a_start_has_a_number_that_its_ranks_share(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_HET_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert len({0, attempt_of(1), attempt_of(1)}) == 3, "whoever is alone starts whenever it likes"
    assert attempt_of(2) == 0, "nothing tells these ranks from those of another start"
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    first = attempt_of(2)
    assert first == attempt_of(2) != 0
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert attempt_of(2) not in (0, first)
    monkeypatch.setenv("SLURM_HET_SIZE", "2")
    assert attempt_of(2) == 0, "the parts of such a job have numbers of their own"
