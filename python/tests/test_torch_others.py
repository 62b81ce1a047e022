"""Other people's loaders and trainers around ours: they must not share an epoch out a second time."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import fodder.torch as ft  # noqa: E402


def as_list(samples):
    return samples


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_dataloader_goes_on_in_the_middle_of_an_epoch(pets, data, workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")

    def loader():
        sampler = ft.EpochSampler(pets, seed=3, publish=False)
        return stateful.StatefulDataLoader(
            ft.ItemDataset(pets), batch_size=4, sampler=sampler, num_workers=workers, collate_fn=as_list
        )

    first = loader()
    batches = iter(first)
    seen = [sample for _ in range(3) for sample, _ in next(batches)]
    resumed = loader()
    resumed.load_state_dict(first.state_dict())
    seen += [sample for batch in resumed for sample, _ in batch]
    assert sorted(seen) == sorted(data.content)


def test_accelerate_leaves_a_loader_as_it_is(pets, data):
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    loader = ft.Loader(ft.ItemDataset(pets), batch_size=4, collate_fn=as_list)
    prepared = accelerate.Accelerator(cpu=True).prepare(loader)
    assert prepared is loader
    assert sorted(sample for batch in prepared for sample, _ in batch) == sorted(data.content)
    assert loader.audits[0].exact


def test_embeddings_reach_the_node(pets):
    loader = ft.Loader(ft.ItemDataset(pets), batch_size=4, collate_fn=as_list)
    for _ in loader:
        loader.report(losses=torch.rand(len(loader.ids)), embeddings=torch.rand(len(loader.ids), 8))
    assert loader.audits[0].exact
    with pytest.raises(ValueError, match="reshape"):
        loader.report(embeddings=torch.rand(7), ids=[1, 2])
