"""The loader: exactly once on any number of ranks, resumed anywhere, whatever the node does."""

from __future__ import annotations

import gc
import threading

import fodder
import numpy as np
import pytest
from conftest import Data

torch = pytest.importorskip("torch", reason="torch is not installed")

import fodder.torch as ft  # noqa: E402
from fodder.torch._told import Told  # noqa: E402


def id_of(view):
    """What a sample is known by in these tests: its first bytes."""
    return bytes(view[:8])


def as_list(samples):
    return samples


def loader_of(dataset, **how):
    how = {"batch_size": 5, "collate_fn": as_list, **how}
    return ft.Loader(ft.ItemDataset(dataset, id_of), **how)


def ids_in(batches, by_content):
    """The items that a loop was given, by what is in them."""
    return [by_content[sample] for batch in batches for sample, _ in batch]


MODES = [ft.Strict(), ft.Reorder(10), ft.Approx(max_fraction=0.3, same_class=False)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: type(mode).__name__.lower())
def test_an_epoch_is_the_dataset_and_the_audit_says_so(pets, data, by_content, mode, workers):
    loader = loader_of(pets, mode=mode, num_workers=workers, seed=3)
    orders = []
    for epoch in range(3):
        given, attributed = [], []
        for batch in loader:
            given += ids_in([batch], by_content)
            attributed += loader.ids
        # Whatever is served, what is told of it is true.
        assert given == attributed and len(given) == len(data)
        if not isinstance(mode, ft.Approx):
            assert sorted(given) == list(range(len(data)))
        audit = loader.audits[-1]
        assert audit.exact and (audit.epoch, audit.consumed) == (epoch, len(data))
        assert sum(loader.sources.values()) == len(data)
        orders.append(given)
    assert orders[0] != orders[1]
    job = [job for job in pets.jobs() if job["name"] == loader._job.name]
    assert job[0]["consumed"] == len(data) and job[0]["mode"] == type(mode).__name__.lower()
    loader.close()
    assert not [job for job in pets.jobs() if job["name"] == loader._job.name]


@pytest.mark.parametrize("world", [1, 2, 3, 4])
@pytest.mark.parametrize("uneven", ["pad", "drop", "exact"])
def test_ranks_share_an_epoch(pets, data, by_content, world, uneven):
    name = f"share-{world}-{uneven}"
    ranks = [loader_of(pets, job=name, rank=rank, world=world, uneven=uneven) for rank in range(world)]
    passes = [iter(loader) for loader in ranks]
    lengths = [len(loader) for loader in ranks]
    given = [ids_in(batches, by_content) for batches in passes]
    everything = sorted(index for ids in given for index in ids)
    if uneven == "exact":
        assert everything == list(range(len(data)))
    elif uneven == "pad":
        assert len({len(ids) for ids in given}) == 1 and len(set(lengths)) == 1
        assert set(everything) == set(range(len(data)))
        assert len(everything) - len(data) == sum(loader.audits[0].pads for loader in ranks)
    else:
        assert len({len(ids) for ids in given}) == 1
        assert len(set(everything)) == len(everything) == len(data) // world * world
    assert all(loader.audits[0].exact for loader in ranks)


@pytest.mark.parametrize("before", [1, 2, 3, 4])
@pytest.mark.parametrize("after", [1, 2, 3, 4])
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_strict_epoch_goes_on_on_another_world(pets, data, by_content, before, after, taken):
    name = f"resume-{before}-{after}-{taken}"
    ranks = [loader_of(pets, batch_size=4, job=name, rank=rank, world=before) for rank in range(before)]
    passes = [iter(loader) for loader in ranks]
    # A pass begins with its first batch: what is then prefetched and not taken does not count.
    first = [[next(batches) for _ in range(taken)] for batches in passes]
    states = [loader.state_dict() for loader in ranks]
    assert all(state.get("checkpoint") == states[0].get("checkpoint") for state in states)
    resumed = [loader_of(pets, batch_size=4, job=name, rank=rank, world=after) for rank in range(after)]
    for loader in resumed:
        loader.load_state_dict(states[0])
    rest = [ids_in(batches, by_content) for batches in [iter(loader) for loader in resumed]]
    pads = sum(loader.audits[0].pads for loader in resumed)
    seen = ids_in((batch for batches in first for batch in batches), by_content) + [i for ids in rest for i in ids]
    assert set(seen) == set(range(len(data))) and len(seen) == len(data) + pads
    assert all(loader.audits[0].exact and loader.epoch == 1 for loader in resumed)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", MODES[:2], ids=["strict", "reorder"])
def test_what_workers_prefetched_and_the_loop_did_not_take_is_given_again(pets, data, by_content, mode, workers):
    loader = loader_of(pets, batch_size=3, mode=mode, num_workers=workers, job=f"took-{workers}-{mode}")
    batches = iter(loader)
    taken = ids_in([next(batches) for _ in range(4)], by_content)
    state = loader.state_dict()
    del batches
    again = loader_of(pets, batch_size=3, mode=mode, num_workers=workers)
    again.load_state_dict(state)
    rest = ids_in(again, by_content)
    assert sorted(taken + rest) == list(range(len(data)))
    # A state of the rest leads further: twice resumed is as good.
    assert again.state_dict()["epoch"] == 1 and "checkpoint" not in again.state_dict()


def test_a_state_is_small_and_may_be_saved_by_torch(pets, tmp_path):
    loader = loader_of(pets)
    next(iter(loader))
    torch.save(loader.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert len(state["checkpoint"]) < 100 and state["epoch"] == 0
    other = loader_of(pets)
    other.load_state_dict(state)
    assert len(list(other)) == len(loader) - 1
    with pytest.raises(ValueError, match="not a state"):
        other.load_state_dict({"epoch": 3})


def test_a_pass_that_is_left_early_is_an_epoch_with_omissions(pets, data, by_content):
    loader = loader_of(pets)
    for _ in loader:
        break
    assert sorted(ids_in(loader, by_content)) == list(range(len(data)))
    assert [audit.epoch for audit in loader.audits] == [0, 1]
    assert loader.audits[0].omissions == len(data) - 5 and loader.audits[1].exact
    loader.set_epoch(0)
    assert sorted(ids_in(loader, by_content)) == list(range(len(data)))


def test_the_order_is_by_seed_and_without_shuffling_by_id(pets, data, by_content):
    first, same, other = (ids_in(loader_of(pets, seed=seed), by_content) for seed in (1, 1, 2))
    assert first == same != other
    assert ids_in(loader_of(pets, shuffle=False), by_content) == list(range(len(data)))
    sampled = list(ft.EpochSampler(pets, seed=1, publish=False))
    assert sampled == first


def test_a_sampler_in_torchs_own_dataloader_tells_the_node_its_plan(pets, data):
    ranks = [ft.EpochSampler(pets, seed=5, rank=rank, world=2, job="plain") for rank in range(2)]
    loaders = [
        torch.utils.data.DataLoader(ft.ItemDataset(pets), batch_size=4, sampler=sampler, collate_fn=as_list)
        for sampler in ranks
    ]
    seen = [[sample for batch in loader for sample, _ in batch] for loader in loaders]
    assert sorted(seen[0] + seen[1]) == sorted(data.content)
    assert len(ranks[0]) == len(data) // 2
    job = [job for job in pets.jobs() if job["name"] == "plain"]
    assert (job[0]["epoch"], job[0]["consumed"]) == (0, len(data))
    before = list(ranks[0])
    ranks[0].set_epoch(1)
    assert list(ranks[0]) == before
    assert list(ranks[0]) != before


@pytest.mark.parametrize("mode", MODES[:2], ids=["strict", "reorder"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_node_that_is_killed_in_an_epoch_changes_nothing_of_what_is_given(serve, data, by_content, mode, workers):
    node = serve(str(data.folder), "--name", "pets")
    pets = fodder.connect(node.address).dataset("pets")
    loader = loader_of(pets, batch_size=2, mode=mode, num_workers=workers)
    given = []
    for number, batch in enumerate(loader):
        given += ids_in([batch], by_content)
        if number == 5:
            node.kill()
            threading.Timer(0.3, node.start).start()
    assert sorted(given) == list(range(len(data)))
    assert loader.audits[0].exact
    # The next epoch is the node's again.
    assert sorted(ids_in(loader, by_content)) == list(range(len(data)))
    assert [job["epoch"] for job in pets.jobs()] == [1]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: type(mode).__name__.lower())
@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_go_on_when_a_node_is_killed_in_an_epoch(serve, data, by_content, mode, workers):
    node = serve(str(data.folder), "--name", "pets")
    pets = fodder.connect(node.address).dataset("pets")
    # 3 ranks and batches of 5 leave pads and short batches.
    world = range(3)
    how = {"batch_size": 5, "mode": mode, "num_workers": workers, "job": "ranks", "world": 3, "seed": 8}
    ranks = [loader_of(pets, rank=rank, **how) for rank in world]
    passes = [iter(loader) for loader in ranks]
    given = [[] for _ in world]
    for step in range(len(ranks[0])):
        if step == 1:
            node.kill()
            threading.Timer(0.3, node.start).start()
        for rank in world:
            given[rank] += ids_in([next(passes[rank])], by_content)
    assert all(next(batches, None) is None for batches in passes)
    audits = [loader.audits[0] for loader in ranks]
    assert all(audit.exact for audit in audits) and sum(audit.consumed for audit in audits) == len(data)
    if not isinstance(mode, ft.Approx):
        everything = [index for ids in given for index in ids]
        assert set(everything) == set(range(len(data)))
        assert len(everything) - len(data) == sum(audit.pads for audit in audits)
    # The next epoch is the node's again.
    passes = [iter(loader) for loader in ranks]
    assert sum(len(ids_in(batches, by_content)) for batches in passes) >= len(data)
    assert [(job["epoch"], job["world"]) for job in pets.jobs()] == [(1, 3)]


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: type(mode).__name__.lower())
@pytest.mark.parametrize("workers", [0, 2])
def test_an_item_that_is_gone_at_its_origin_is_an_error(serve, tmp_path, monkeypatch, mode, workers, world):
    data = Data(tmp_path / "data")
    pets = fodder.connect(serve(str(data.folder), "--name", "pets").address).dataset("pets")
    how = {"mode": mode, "num_workers": workers, "job": "gone", "world": world}
    ranks = [loader_of(pets, rank=rank, **how) for rank in range(world)]

    def refuse(*_):
        raise AssertionError("it is not the job that the node has not got")

    monkeypatch.setattr(ft._attempt.Start, "resume", refuse)
    for path in data.paths:
        (data.folder / path).unlink()
    for loader in ranks:
        with pytest.raises(LookupError, match=r"class\d/\d+\.png"):
            list(loader)


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: type(mode).__name__.lower())
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_goes_on_though_its_reports_find_out_first_that_the_node_restarted(
    serve, data, by_content, mode, workers, world
):
    node = serve(str(data.folder), "--name", "pets")
    pets = fodder.connect(node.address).dataset("pets")
    how = {"batch_size": 2, "mode": mode, "num_workers": workers, "job": "reports", "world": world}
    ranks = [loader_of(pets, rank=rank, **how) for rank in range(world)]
    passes = [iter(loader) for loader in ranks]
    given = []
    for step in range(len(ranks[0])):
        given += ids_in([next(batches) for batches in passes], by_content)
        if step == 3:
            node.kill()
            node.start()
        for loader in ranks:
            loader.report(embeddings=torch.rand(len(loader.ids), 4))
    assert all(next(batches, None) is None for batches in passes)
    assert all(loader.audits[0].exact for loader in ranks) and len(given) == len(data)
    if not isinstance(mode, ft.Approx):
        assert sorted(given) == list(range(len(data)))


def test_a_job_of_several_ranks_is_gone_when_its_last_rank_closes(pets, data, by_content):
    def here():
        return [job["name"] for job in pets.jobs() if job["name"].startswith("closing")]

    ranks = [loader_of(pets, job="closing", rank=rank, world=3) for rank in range(3)]
    given = [ids_in(loader, by_content) for loader in ranks]
    assert sorted(index for ids in given for index in ids) == list(range(len(data)))
    ranks[1].close()
    ranks[0].close()
    assert here() == ["closing"]
    # One of them comes back for another epoch.
    next(iter(ranks[0]))
    ranks[2].close()
    assert here() == ["closing"]
    ranks[0].close()
    assert here() == []
    samplers = [ft.EpochSampler(pets, job="closing-too", rank=rank, world=2) for rank in range(2)]
    assert sum(len(list(sampler)) for sampler in samplers) == len(data)
    samplers.pop().close()
    assert here() == ["closing-too"]
    samplers.clear()
    gc.collect()
    assert here() == []


def test_ranks_that_take_an_epoch_once_more_get_all_of_it(pets, data, by_content):
    ranks = [loader_of(pets, job="once more", rank=rank, world=2) for rank in range(2)]
    for _ in range(3):
        given = []
        for loader in ranks:
            loader.set_epoch(0)
            given += ids_in(loader, by_content)
        assert sorted(given) == list(range(len(data)))
    for loader in ranks:
        loader.close()
    assert not [job for job in pets.jobs() if job["name"].startswith("once more")]


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_workers_of_every_kind_may_stay_from_epoch_to_epoch(pets, data, by_content, context):
    how = {"multiprocessing_context": context, "persistent_workers": True, "num_workers": 2}
    loader = loader_of(pets, mode=ft.Reorder(10), **how)
    for _ in range(3):
        assert sorted(ids_in(loader, by_content)) == list(range(len(data)))
    assert all(audit.exact for audit in loader.audits)


def test_losses_are_attributed_to_what_was_served_and_nan_is_passed_over(pets, data):
    sampler = ft.ImportanceSampler(pets, seed=2, warm_up=1, reuse_factor=100, beta=1.0)
    loader = loader_of(pets, sampler=sampler)
    with pytest.warns(RuntimeWarning, match="1 losses were not finite"):
        for _ in loader:
            losses = torch.tensor([float(index) for index in loader.ids])
            losses[np.array(loader.ids) == 7] = float("nan")
            loader.report(losses=losses)
    next(iter(loader))
    expected = np.arange(len(data), dtype=float)
    expected[7] = np.nan
    assert np.array_equal(sampler.losses, expected, equal_nan=True) and sampler.ignored == 1
    with pytest.raises(ValueError, match="3 losses for a batch of 5"):
        loader.report(losses=[1, 2, 3])


def test_the_weighted_mean_over_sampled_epochs_is_the_mean_over_all(pets, data):
    items = len(data)
    losses = np.random.default_rng(1).exponential(size=items) ** 2
    sampler = ft.ImportanceSampler(pets, seed=4, warm_up=0, reuse_factor=10**9, beta=1.0, floor=0.1, share=False)
    sampler.update(range(items), losses)
    expected_draws = None
    weighted, plain = [], []
    for epoch in range(1, 2001):
        ids = np.frombuffer(sampler.order(epoch)["ids"], np.uint32)
        if expected_draws is None:
            expected_draws = sampler.chances().sum()
        weights = sampler.weights_of(ids.tolist()).numpy()
        weighted.append((weights * losses[ids]).sum() / expected_draws)
        plain.append(losses[ids].mean())
    error = np.std(weighted) / len(weighted) ** 0.5
    assert abs(np.mean(weighted) - losses.mean()) < 5 * error
    # Without the weights it is not.
    assert abs(np.mean(plain) - losses.mean()) > 5 * np.std(plain) / len(plain) ** 0.5
    sampler.clip = 1.5
    assert sampler.weights_of(list(range(items))).max() <= 1.5


def test_asking_how_long_an_epoch_is_plans_none(pets, data):
    sampler = ft.ImportanceSampler(pets, seed=4, warm_up=1, reuse_factor=3, beta=1.0)
    loader = torch.utils.data.DataLoader(ft.ItemDataset(pets), batch_size=1, sampler=sampler, collate_fn=as_list)
    everything = list(range(len(data)))
    for epoch in range(4):
        sampler.set_epoch(epoch)
        # What the next epoch has is not known before it is planned.
        assert len(loader) == len(data)
        for number, _ in enumerate(loader, 1):
            weights = sampler.weights_of(everything)
            sampler.update(everything, np.arange(len(data)) * number)
            # Whoever shows how far it is asks, and so does whoever does something at the end.
            length = len(loader)
            assert torch.equal(sampler.weights_of(everything), weights)
        assert number == length and (length == len(data)) == sampler.is_full(epoch)


def test_a_rank_may_ask_alone_how_long_an_epoch_is(pets, data):
    # Nobody answers: planning would ask the others for their losses.
    sampler = ft.ImportanceSampler(pets, warm_up=0, rank=0, world=2)
    assert len(sampler) == len(loader_of(pets, sampler=sampler, batch_size=1)) == len(data) // 2
    with pytest.raises(ValueError, match=r"torch\.distributed"):
        next(iter(sampler))


def test_important_samples_come_more_often_and_every_so_often_all_come(pets, data):
    sampler = ft.ImportanceSampler(pets, seed=4, warm_up=2, reuse_factor=5, beta=1.0)
    loader = loader_of(pets, sampler=sampler)
    counts, full = np.zeros(len(data)), []
    for epoch in range(40):
        before = counts.sum()
        for _ in loader:
            counts[loader.ids] += 1
            assert len(loader.weights) == len(loader.ids)
            loader.report(losses=[float(index) for index in loader.ids])
        if counts.sum() - before == len(data):
            full.append(epoch)
        assert loader.audits[-1].exact
    assert {0, 1, 5, 10, 15, 20, 25, 30, 35} <= set(full) and len(full) < 20
    assert counts[-6:].min() > counts[:6].max()


def test_an_importance_epoch_goes_on_with_its_own_items_and_weights(pets, data):
    def begun():
        sampler = ft.ImportanceSampler(pets, seed=4, warm_up=0, reuse_factor=10**9, beta=1.0)
        sampler.update(range(len(data)), np.arange(len(data)))
        loader = loader_of(pets, sampler=sampler)
        loader.set_epoch(1)
        return loader

    whole = begun()
    expected = [(list(whole.ids), whole.weights.tolist()) for _ in whole]
    stopped = begun()
    batches = iter(stopped)
    got = []
    for _ in range(2):
        next(batches)
        got.append((list(stopped.ids), stopped.weights.tolist()))
    resumed = loader_of(pets, sampler=ft.ImportanceSampler(pets))
    resumed.load_state_dict(stopped.state_dict())
    got += [(list(resumed.ids), resumed.weights.tolist()) for _ in resumed]
    assert got == expected


def test_selective_backprop_is_unbiased_and_prefers_high_losses():
    select = ft.SelectiveBackprop(beta=1.0, floor=0.1, generator=torch.Generator().manual_seed(3))
    losses = torch.arange(1.0, 65.0)
    select(losses)
    sums, counts = [], torch.zeros(64)
    for _ in range(800):
        chosen = select(losses)
        sums.append((losses[chosen.indices] * chosen.weights).sum().item())
        counts[chosen.indices] += 1
    assert abs(np.mean(sums) - losses.mean().item()) < 5 * np.std(sums) / len(sums) ** 0.5
    assert counts[-8:].min() > 2 * counts[:8].max()
    assert len(select(torch.tensor([float("nan")])).indices) == 1
    again = ft.SelectiveBackprop(beta=1.0, floor=0.1)
    again.load_state_dict(select.state_dict())
    assert torch.equal(again.chances(losses), select.chances(losses))


class Ledger:
    """A node that counts the batches which are acknowledged to it."""

    job, may_move, since, acknowledged = 1, False, (), 0

    def acknowledge(self, job, epoch, numbers):
        self.acknowledged += len(numbers)


@pytest.mark.parametrize(
    ("world", "batch_size", "expected"), [(8, 256, 16), (128, 256, 8), (1, 65536, 4), (1024, 256, 1), (16384, 256, 1)]
)
def test_many_ranks_and_large_batches_are_acknowledged_sooner(world, batch_size, expected):
    node = Ledger()
    told = Told(node, "pets", world)
    told.begin(0)
    most = 0
    for number in range(100):
        told.consumed(number, [])
        most = max(most, number + 1 - node.acknowledged)
        told.acknowledge(batch_size)
    # All ranks together may have 2^20 items, also those that workers have prefetched.
    assert most == expected and (most == 1 or world * batch_size * most <= 2**20 // 4)


def test_settings_that_mean_nothing_are_refused(pets):
    with pytest.raises(ValueError, match="strict, reorder or approx"):
        loader_of(pets, mode="loose")
    with pytest.raises(ValueError, match="at least 1"):
        loader_of(pets, batch_size=0)
    with pytest.raises(ValueError, match="no rank 2: the job has 2 ranks"):
        loader_of(pets, rank=2, world=2)
    with pytest.raises(ValueError, match="pad, drop or exact"):
        list(loader_of(pets, uneven="most"))
