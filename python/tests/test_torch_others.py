"""Other people's loaders and trainers around ours: they must not share an epoch out a second time."""

from __future__ import annotations

import os

import fodder
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import fodder.torch as ft  # noqa: E402


def as_list(samples):
    return samples


def head(view):
    """What a sample is known by: its first bytes, as numbers to train on."""
    return torch.tensor(list(view[:8]), dtype=torch.float32)


def heads(data):
    return sorted(tuple(map(float, content[:8])) for content in data.content)


def by_loader(dataset):
    return ft.Loader(dataset, batch_size=4, seed=2)


def by_sampler(dataset):
    sampler = ft.EpochSampler(dataset, seed=2)
    return torch.utils.data.DataLoader(dataset, batch_size=4, sampler=sampler)


def in_ranks(function, folder, *args):
    """Runs it in two processes; what each of them returned."""
    torch.multiprocessing.start_processes(_rank, (function, str(folder), args), nprocs=2, start_method="spawn")
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]


def _rank(rank, function, folder, args):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    os.environ["TORCHELASTIC_RUN_ID"] = os.path.basename(folder)
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    torch.save(function(*args), f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


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


def accelerated(address):
    """What this rank is given of a loader, and what it is told of a sampler."""
    import accelerate

    dataset = ft.ItemDataset(fodder.connect(address).dataset("pets"), head)
    accelerator = accelerate.Accelerator(cpu=True)
    assert accelerator.num_processes == 2
    given = [tuple(row) for samples, _ in accelerator.prepare(by_loader(dataset)) for row in samples.tolist()]
    with pytest.raises(ValueError) as refused:
        list(accelerator.prepare(by_sampler(dataset)))
    return given, str(refused.value)


def test_accelerate_does_not_share_out_a_second_time(node, data, tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    (left, said), (right, _) = in_ranks(accelerated, tmp_path, node.address)
    assert len(left) == len(right) and sorted(left + right) == heads(data)
    # It would share out the batches of a sampler's rank, and nothing keeps it from that but an error.
    assert "give Accelerate a fodder.torch.Loader" in said


def lightning_fit(address, make, devices):
    """Trains two epochs with Lightning; what this process's loop was given in each."""
    import lightning.pytorch as lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.seen = torch.nn.Linear(8, 1), [[], []]

        def train_dataloader(self):
            return make(ft.ItemDataset(fodder.connect(address).dataset("pets"), head))

        def training_step(self, batch, _):
            self.seen[self.current_epoch] += [tuple(row) for row in batch[0].tolist()]
            return self.layer(batch[0] / 255).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    model = Model()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    how = {"devices": devices, "strategy": "ddp"} if devices > 1 else {"devices": 1}
    trainer = lightning.Trainer(accelerator="cpu", max_epochs=2, enable_model_summary=False, **how, **quiet)
    trainer.fit(model)
    assert trainer.world_size == devices
    return model.seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [by_loader, by_sampler], ids=["loader", "sampler"])
def test_lightning_trains_on_every_item_once_an_epoch(node, data, make):
    pytest.importorskip("lightning", reason="Lightning is not installed")
    first, second = lightning_fit(node.address, make, 1)
    assert sorted(first) == sorted(second) == heads(data)
    assert first != second


def lightning_fit_twice(address):
    return [seen for make in (by_loader, by_sampler) for seen in lightning_fit(address, make, 2)]


def test_lightning_does_not_share_out_a_second_time(node, data, tmp_path):
    pytest.importorskip("lightning", reason="Lightning is not installed")
    for left, right in zip(*in_ranks(lightning_fit_twice, tmp_path, node.address)):
        assert len(left) == len(right) and sorted(left + right) == heads(data)


def test_embeddings_reach_the_node(pets):
    loader = ft.Loader(ft.ItemDataset(pets), batch_size=4, collate_fn=as_list)
    for _ in loader:
        loader.report(losses=torch.rand(len(loader.ids)), embeddings=torch.rand(len(loader.ids), 8))
    assert loader.audits[0].exact
    with pytest.raises(ValueError, match="reshape"):
        loader.report(embeddings=torch.rand(7), ids=[1, 2])
