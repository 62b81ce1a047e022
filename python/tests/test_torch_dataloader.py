"""A Loader takes the arguments of torch's DataLoader, or says what to give instead."""

from __future__ import annotations

import pickle
import warnings

import fodder
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import fodder.torch as ft  # noqa: E402
from fodder.torch import _repeat  # noqa: E402
from fodder.torch._weights import sample_weights  # noqa: E402
from test_torch_loader import as_list, id_of, ids_in, loader_of  # noqa: E402
from test_torch_others import in_ranks  # noqa: E402
from torch.utils import data as td  # noqa: E402

SUBSET = [3, 30, 7, 11, 2, 29, 18]


def items(pets):
    return ft.ItemDataset(pets, id_of)


def loader(dataset, *args, **how):
    return ft.Loader(dataset, *args, collate_fn=as_list, **how)


def resumed_in_the_middle(make, by_content):
    """What an epoch gives that is interrupted after its first batch, saved by torch and resumed by another loader."""
    first = make()
    batches = iter(first)
    given = ids_in([next(batches)], by_content)
    state = first.state_dict()
    del batches
    second = make()
    second.load_state_dict(state)
    given += ids_in(second, by_content)
    assert [audit.exact for audit in second.audits] == [True]
    return given


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", ["strict", "reorder"])
def test_a_subset_is_read_as_a_job_over_its_items(pets, by_content, mode, workers):
    subset = td.Subset(items(pets), SUBSET)
    of_subset = loader(subset, 3, num_workers=workers, mode=mode, job=f"subset-{mode}-{workers}")
    orders = [ids_in(of_subset, by_content) for _ in range(3)]
    assert all(sorted(order) == sorted(SUBSET) for order in orders) and orders[0] != orders[1]
    assert all(audit.exact and audit.planned == len(SUBSET) for audit in of_subset.audits) and len(of_subset) == 3
    assert [job["consumed"] for job in pets.jobs() if job["name"] == of_subset._job.name] == [len(SUBSET)]
    assert of_subset.dataset is subset
    nested = td.Subset(subset, [5, 0])
    assert ids_in(loader(nested, shuffle=False), by_content) == [29, 3]
    assert sorted(resumed_in_the_middle(lambda: loader(subset, 3, mode=mode), by_content)) == sorted(SUBSET)


def test_parts_of_a_random_split_are_disjoint_and_complete(pets, data, by_content):
    parts = td.random_split(items(pets), [0.75, 0.25], torch.Generator().manual_seed(1))
    given = [ids_in(loader(part, 4, True), by_content) for part in parts]
    assert [len(ids) for ids in given] == [27, 9]
    assert sorted(given[0] + given[1]) == list(range(len(data)))
    together = td.ConcatDataset(parts)
    assert ids_in(loader(together, 4, False), by_content) == [*parts[0].indices, *parts[1].indices]
    # As a job: what is read by index is strict.
    assert sorted(ids_in(loader(together, 4, mode="reorder"), by_content)) == list(range(len(data)))


def test_ranks_share_a_subset(pets, by_content):
    ranks = [loader(td.Subset(items(pets), SUBSET), 2, rank=rank, world=2, job="subset-ranks") for rank in range(2)]
    given = [ids_in(batches, by_content) for batches in [iter(one) for one in ranks]]
    assert len(given[0]) == len(given[1]) == 4 and set(given[0] + given[1]) == set(SUBSET)
    assert sum(one.audits[0].pads for one in ranks) == 1 and all(one.audits[0].exact for one in ranks)


@pytest.mark.parametrize("workers", [0, 2])
def test_datasets_that_a_job_cannot_read_are_read_by_index(pets, data, by_content, workers):
    concatenated = td.ConcatDataset([td.Subset(items(pets), SUBSET), td.TensorDataset(torch.arange(4))])
    both = loader(concatenated, 3, num_workers=workers)
    for _ in range(2):
        samples = [sample for batch in both for sample in batch]
        assert sorted(by_content[sample[0]] for sample in samples if isinstance(sample[0], bytes)) == sorted(SUBSET)
        assert sorted(int(sample[0]) for sample in samples if len(sample) == 1) == [0, 1, 2, 3]
    assert [(audit.exact, audit.consumed) for audit in both.audits] == [(True, 11)] * 2
    two = td.ConcatDataset([items(pets), items(pets)])
    given = resumed_in_the_middle(lambda: loader(two, 5, num_workers=workers), by_content)
    assert sorted(given) == sorted([*range(len(data))] * 2)
    with pytest.raises(ValueError, match="leave out mode"):
        list(loader(concatenated, 3, mode="reorder"))


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_samplers_decide_the_order(pets, data, by_content, workers):
    dataset = items(pets)

    def epoch(sampler, **how):
        one = loader(dataset, 5, sampler=sampler, num_workers=workers, **how)
        given = ids_in(one, by_content)
        assert one.audits[0].exact and one.audits[0].consumed == len(given)
        return given

    assert epoch(td.SequentialSampler(dataset)) == list(range(len(data)))
    expected = list(td.RandomSampler(dataset, generator=torch.Generator().manual_seed(4)))
    assert epoch(td.RandomSampler(dataset, generator=torch.Generator().manual_seed(4))) == expected
    assert sorted(epoch(td.SubsetRandomSampler(SUBSET), mode="reorder")) == sorted(SUBSET)
    assert epoch([5, 3, 9]) == [5, 3, 9]
    weights = [0.0] * 30 + [1.0, 2.0] * 3
    given = epoch(td.WeightedRandomSampler(weights, 50, generator=torch.Generator().manual_seed(4)))
    assert given == list(td.WeightedRandomSampler(weights, 50, generator=torch.Generator().manual_seed(4)))
    assert len(given) == 50 > len(set(given))


def test_an_epoch_with_repeated_samples_resumes_with_what_is_left_of_it(pets, by_content):
    sampler = [4, 4, 1, 7, 1, 4, 9]
    given = resumed_in_the_middle(lambda: loader(items(pets), 2, sampler=sampler), by_content)
    assert given == sampler
    with pytest.raises(ValueError, match="sampler without replacement"):
        list(loader(items(pets), 2, sampler=sampler, mode="reorder"))


@pytest.mark.parametrize("workers", [0, 2])
def test_batch_samplers_decide_the_batches(pets, by_content, workers):
    dataset = items(pets)
    torchs = td.BatchSampler(td.SequentialSampler(dataset), 5, True)
    one = loader(dataset, batch_sampler=torchs, num_workers=workers)
    assert [len(batch) for batch in one] == [5] * 7 and len(one) == 7
    assert one.audits[0].exact and one.audits[0].dropped == 1 and one.batch_sampler is torchs
    buckets = [[1, 2, 3], [4], [30, 30], [5, 6, 7, 8]]
    one = loader(dataset, batch_sampler=buckets, num_workers=workers)
    assert len(one) == 4
    for _ in range(2):
        assert [ids_in([batch], by_content) for batch in one] == buckets
    assert [audit.exact for audit in one.audits] == [True] * 2
    next(iter(one))
    resumed = loader(dataset, batch_sampler=buckets, num_workers=workers)
    resumed.load_state_dict(one.state_dict())
    assert [ids_in([batch], by_content) for batch in resumed] == buckets[1:] and resumed.audits[-1].exact


def test_without_a_batch_size_samples_come_alone_and_converted(pets, data):
    numbers = ft.ItemDataset(pets, lambda view: np.frombuffer(view[:8], np.uint8).copy())
    singles = ft.Loader(numbers, None, False)
    samples = list(singles)
    assert len(samples) == len(singles) == len(data) and singles.batch_size is None
    assert all(isinstance(sample, torch.Tensor) and sample.shape == (8,) for sample, _ in samples)
    assert [bytes(sample.numpy()) for sample, _ in samples] == [content[:8] for content in data.content]
    assert singles.audits[0].exact


def test_arguments_have_the_order_that_they_have_in_torch(pets, data, by_content):
    dataset, init = items(pets), None
    shuffled = ft.Loader(
        dataset, 5, True, None, None, 2, as_list, False, True, 30, init, "fork", None, prefetch_factor=3
    )
    assert len(ids_in(shuffled, by_content)) == 35 and shuffled._loader.prefetch_factor == 3
    plain = ft.Loader(dataset, 5, False, None, None, 0, as_list)
    assert ids_in(plain, by_content) == list(range(len(data)))
    seeded = [
        ids_in(loader(dataset, 5, generator=torch.Generator().manual_seed(seed)), by_content) for seed in (1, 1, 2)
    ]
    assert seeded[0] == seeded[1] != seeded[2]
    assert ids_in(ft.Loader(pets, 5, collate_fn=heads_of), by_content) != list(range(len(data)))


def heads_of(samples):
    return [(sample[:8], label) for sample, label in samples]


class Stream(td.IterableDataset):
    def __iter__(self):
        return iter(range(3))


def test_what_a_loader_cannot_take_is_refused_with_advice(pets):
    dataset = items(pets)
    shared = td.DistributedSampler(dataset, num_replicas=2, rank=0)
    refused = [
        (TypeError, r"IterableDataset: .*DataLoader", {"dataset": Stream()}),
        (TypeError, r"NoneType has no __getitem__.*ItemDataset", {"dataset": None}),
        (ValueError, r"leave out the DistributedSampler", {"sampler": shared}),
        (ValueError, r"give one of them", {"sampler": [1], "shuffle": True}),
        (ValueError, r"batch_sampler excludes", {"batch_sampler": [[1]], "batch_size": 4}),
        (ValueError, r"single samples", {"batch_size": None, "drop_last": True}),
        (ValueError, r'mode="reorder"', {"in_order": False}),
        (TypeError, r"no __len__", {"sampler": iter([1])}),
        (ValueError, r"sampler and batch_size", {"batch_sampler": [[1], [2]], "rank": 0, "world": 2}),
        (ValueError, r"leave the sampler out", {"dataset": td.Subset(dataset, [1]), "sampler": ft.EpochSampler(pets)}),
    ]
    for kind, match, how in refused:
        with pytest.raises(kind, match=match.replace("leave the sampler out", "leave the\\s+sampler out")):
            ft.Loader(**{"dataset": dataset, **how})
    with pytest.raises(IndexError, match="index 36, and the dataset has 36"):
        list(ft.Loader(dataset, sampler=[36]))
    with pytest.raises(TypeError, match="as batch_sampler"):
        list(ft.Loader(dataset, batch_size=None, sampler=[[1, 2]]))
    with pytest.raises(ValueError, match=r"agree .* torch\.distributed"):
        list(ft.Loader(dataset, sampler=[1, 2], rank=0, world=2, job="apart"))


def drawn_by_ranks(address):
    dataset = ft.ItemDataset(fodder.connect(address).dataset("pets"), id_of)
    one = loader(dataset, 4, sampler=td.RandomSampler(dataset))
    return [[index for _ in one for index in one.ids] for _ in range(2)], one.audits


def test_ranks_share_what_the_sampler_of_the_first_draws(node, data, tmp_path):
    (left, audits), (right, _) = in_ranks(drawn_by_ranks, tmp_path, node.address)
    for epoch in range(2):
        assert sorted(left[epoch] + right[epoch]) == list(range(len(data)))
    assert left[0] != left[1] and all(audit.exact for audit in audits)


def test_a_loader_made_anew_for_each_epoch_warns_that_its_order_repeats(pets):
    _repeat._passed.clear()
    list(loader_of(pets, seed=77))
    with pytest.warns(RuntimeWarning, match=r"repeats its order.*set_epoch"):
        list(loader_of(pets, seed=77))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(loader_of(pets, seed=77))  # It is said once.
        for how in ({"seed": 78}, {"seed": 77, "shuffle": False}, {"seed": 79, "job": "a"}, {"seed": 79, "job": "b"}):
            list(loader_of(pets, **how))
        for epoch in range(3):
            one = loader_of(pets, seed=78)
            one.set_epoch(epoch)
            list(one)
        halves = td.random_split(items(pets), [0.5, 0.5])
        for half in halves:
            list(loader(half, seed=80))


@pytest.mark.parametrize("mode", ["strict", "reorder"])
def test_a_pickled_loader_is_one_of_its_own_at_the_same_place(pets, data, by_content, mode):
    original = loader_of(pets, mode=mode, seed=5)
    copy = pickle.loads(pickle.dumps(original))
    assert sorted(ids_in(copy, by_content)) == list(range(len(data)))
    list(original)
    batches = iter(original)
    taken = ids_in([next(batches), next(batches)], by_content)
    copy = pickle.loads(pickle.dumps(original))
    assert copy.epoch == 1 and copy.batches_taken == 2 and len(copy.audits) == 1
    assert sorted(taken + ids_in(copy, by_content)) == list(range(len(data)))
    assert sorted(taken + ids_in(batches, by_content)) == list(range(len(data)))
    assert original.audits[-1].exact and copy.audits[-1].exact
    subset = pickle.loads(pickle.dumps(loader(td.Subset(items(pets), SUBSET), 3)))
    assert sorted(ids_in(subset, by_content)) == sorted(SUBSET)


def test_a_loader_says_what_it_reads_and_how_far_it_is(pets):
    one = loader_of(pets, num_workers=2)
    assert repr(one).startswith("Loader(ItemDataset(fodder.Dataset('pets', 36 items")
    assert "batch_size=5" in repr(one) and "num_workers=2" in repr(one) and "world" not in repr(one)
    assert repr(one).endswith("epoch 0, 0 of 8 batches")
    batches = iter(loader_of(pets, rank=1, world=2, job="repr"))
    next(batches)
    assert "rank=1, world=2" in repr(loader_of(pets, rank=1, world=2, job="repr"))


def test_weights_follow_the_losses_to_their_device(pets):
    one = loader_of(pets)
    next(iter(one))
    for device in ("cpu", "meta"):
        losses = torch.ones(5, device=device, requires_grad=True)
        for weighted in (losses * one.weights, one.weights * losses, torch.mul(one.weights, other=losses)):
            assert type(weighted) is torch.Tensor and weighted.device.type == device
        (losses * one.weights).mean().backward()
        assert losses.grad.device.type == device
    assert type(one.weights.to("meta")) is torch.Tensor and one.weights.tolist() == [1.0] * 5
    assert torch.equal(sample_weights(torch.tensor([1.0, 2.0])) * 2, torch.tensor([2.0, 4.0]))
