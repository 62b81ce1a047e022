"""Trainers and progress bars over an epoch that was resumed: it has exactly the rest, and the next ones are whole."""

from __future__ import annotations

import os

import fodder
import numpy as np
import pytest
from fodder._fodder import Plan

torch = pytest.importorskip("torch", reason="torch is not installed")

import fodder.torch as ft  # noqa: E402
from fodder.torch._epoch import Epoch  # noqa: E402
from fodder.torch._fetch import Parcel, Read, Ticket  # noqa: E402
from test_torch_loader import ids_in, loader_of  # noqa: E402
from test_torch_others import head, heads, in_ranks  # noqa: E402

# 36 items in batches of 5 are 8 batches; 3 of them are taken before the resume.
BATCH, STEPS, TAKEN = 5, 8, 3


def interrupted(dataset, taken=TAKEN, **how):
    """The state of a loop that took so many batches, and the ids of these."""
    loader = loader_of(dataset, **how)
    batches = iter(loader)
    ids = [index for _ in range(taken) if next(batches) for index in loader.ids]
    return loader.state_dict(), ids


def assert_clean(loader, data, resumed):
    """The audits are of the rest of an epoch, which had so many items, and of whole epochs."""
    assert [audit.epoch for audit in loader.audits] == list(range(len(loader.audits)))
    assert all(audit.exact for audit in loader.audits)
    assert [audit.consumed for audit in loader.audits] == [resumed] + [len(data)] * (len(loader.audits) - 1)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", ["strict", "reorder", "approx"])
def test_the_last_batch_ends_the_epoch_without_another_call_of_next(pets, data, mode, workers):
    loader = loader_of(pets, mode=mode, num_workers=workers)
    batches = iter(loader)
    for number in range(STEPS):
        assert len(loader) == STEPS and not loader.audits and loader.batches_taken == number
        next(batches)
    last = list(loader.ids)
    assert len(last) == 1 and len(loader.weights) == 1
    assert [audit.exact for audit in loader.audits] == [True]
    assert loader.batches_taken == 0 and "checkpoint" not in loader.state_dict()
    assert loader.state_dict()["epoch"] == 1
    # The loop still trains on the last batch.
    loader.report(losses=[1.0])
    assert next(batches, None) is None and len(loader.audits) == 1


@pytest.mark.parametrize("mode", ["strict", "reorder"])
def test_len_counts_a_resumed_epoch_from_its_beginning_and_then_the_next(pets, data, mode):
    state, _ = interrupted(pets, mode=mode)
    loader = loader_of(pets, mode=mode)
    loader.load_state_dict(state)
    assert len(loader) == STEPS and loader.batches_taken == TAKEN
    batches = iter(loader)
    for number in range(TAKEN, STEPS):
        assert len(loader) == STEPS and loader.batches_taken == number
        next(batches)
    assert len(loader) == STEPS and loader.batches_taken == 0
    assert len(list(loader)) == STEPS
    assert_clean(loader, data, len(data) - TAKEN * BATCH)


@pytest.mark.parametrize("uneven", ["pad", "drop", "exact"])
@pytest.mark.parametrize("drop_last", [False, True])
def test_len_of_a_resumed_epoch_is_right_on_every_rank(pets, uneven, drop_last):
    name = f"lengths-{uneven}-{drop_last}"

    def ranks(world):
        how = {"job": name, "world": world, "uneven": uneven, "drop_last": drop_last, "batch_size": 4}
        return [loader_of(pets, rank=rank, **how) for rank in range(world)]

    before = ranks(3)
    lengths = [len(loader) for loader in before]
    passes = [iter(loader) for loader in before]
    assert all(next(batches) for batches in passes)
    state = before[0].state_dict()
    after = ranks(3)
    for loader in after:
        loader.load_state_dict(state)
    assert [len(loader) for loader in after] == lengths
    left = [sum(1 for _ in batches) for batches in [iter(loader) for loader in after]]
    assert [count + 1 for count in left] == lengths == [len(loader) for loader in after]
    assert all(loader.audits[0].exact for loader in after)
    # On another number of ranks an epoch has as many steps as were taken and are left.
    alone = loader_of(pets, batch_size=4, drop_last=drop_last, uneven=uneven)
    alone.load_state_dict(state)
    length = len(alone)
    assert sum(1 for _ in alone) + 1 == length


def test_set_epoch_with_the_epoch_of_a_loaded_state_does_not_begin_it_again(pets, data):
    state, taken = interrupted(pets)
    loader = loader_of(pets)
    loader.load_state_dict(state)
    rest = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        rest += [index for _ in loader for index in loader.ids]
    assert sorted(taken + rest) == sorted([*range(len(data))] * 2)
    loader.load_state_dict(state)
    loader.set_epoch(5)
    assert len(list(loader)) == STEPS and loader.audits[-1].epoch == 5


def test_drop_last_is_no_omission(pets, data):
    for mode in ("strict", "reorder"):
        loader = loader_of(pets, drop_last=True, mode=mode)
        assert len(list(loader)) == len(loader) == STEPS - 1
        assert loader.audits[0].exact and (loader.audits[0].planned, loader.audits[0].dropped) == (35, 1)
        # One that ends early has omissions, and only of what it planned.
        next(iter(loader))
        list(loader)
        assert loader.audits[1].omissions == 30 and loader.audits[2].exact


def test_a_pad_that_is_served_before_a_dropped_item_is_no_omission():
    plan = Plan("0" * 32, 10, 0, seed=1, world=3)
    rank = next(rank for rank in range(3) if any(plan.ids(rank, 0, 4)[1]))
    epoch = Epoch(plan, {"seed": 1}, rank, 3, True)
    packed, pads = plan.ids(rank, 0, 4)
    ids = np.frombuffer(packed, np.uint32).tolist()
    # One that reorders gives the pad, which is cached, before the item that the incomplete batch would have.
    given = [place for place in range(4) if pads[place]] + [place for place in range(4) if not pads[place]][:2]
    asked, deliveries = [ids[place] for place in given], ["pad" if pads[place] else "planned" for place in given]
    ticket = Ticket("", None, 0, rank, 0, 3, None, None)
    epoch.take(Parcel(ticket, Read(asked, asked, []), deliveries, False, None))
    audit = epoch.audit()
    assert (audit.planned, audit.consumed, audit.pads, audit.dropped) == (2, 2, 1, 1) and audit.exact


def test_a_tqdm_bar_ends_at_its_total_over_a_resumed_epoch(pets, data):
    tqdm = pytest.importorskip("tqdm.auto", reason="tqdm is not installed")
    state, _ = interrupted(pets)
    loader = loader_of(pets)
    loader.load_state_dict(state)
    for epoch in range(3):
        with open(os.devnull, "w") as nowhere:
            bar = tqdm.tqdm(loader, initial=loader.batches_taken, file=nowhere)
            count = sum(1 for _ in bar)
        assert bar.n == bar.total and count == (STEPS if epoch else STEPS - TAKEN)
    assert_clean(loader, data, len(data) - TAKEN * BATCH)


def test_accelerate_resumes_in_the_middle_of_an_epoch(pets, data, by_content, tmp_path):
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")

    def prepared():
        accelerator = accelerate.Accelerator(cpu=True)
        loader = accelerator.prepare(loader_of(pets))
        accelerator.register_for_checkpointing(loader)
        return accelerator, loader

    accelerator, loader = prepared()
    batches = iter(loader)
    seen = ids_in([next(batches) for _ in range(TAKEN)], by_content)
    accelerator.save_state(str(tmp_path / "state"))
    accelerator, loader = prepared()
    accelerator.load_state(str(tmp_path / "state"))
    for epoch in range(3):
        assert len(loader) == STEPS
        seen += ids_in(loader, by_content)
        assert sorted(seen) == list(range(len(data))) and len(loader.audits) == epoch + 1
        seen = []
    assert_clean(loader, data, len(data) - TAKEN * BATCH)


def test_skip_first_batches_says_how_a_loader_resumes(pets):
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    with pytest.raises(AttributeError, match=r"load_state_dict.*ignore_data_skip=True"):
        accelerate.skip_first_batches(loader_of(pets), 2)


def hugging_face_train(pets, folder, epochs, stop_at=None, resume=None):
    """Trains with a Trainer: the first bytes of the samples of each epoch, and the loader."""
    import transformers

    seen = {}

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def forward(self, samples):
            return {"loss": self.layer(samples / 255).square().mean()}

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            self.loader = ft.Loader(ft.ItemDataset(pets, head), BATCH, seed=2, collate_fn=stacked)
            if resume:
                self.loader.load_state_dict(torch.load(f"{resume}/loader.pt", weights_only=True))
            return self.loader

        def training_step(self, model, inputs, *args):
            epoch = int(self.state.global_step // STEPS)
            seen.setdefault(epoch, []).extend(tuple(row) for row in inputs["samples"].tolist())
            return super().training_step(model, inputs, *args)

    class SaveLoader(transformers.TrainerCallback):
        def on_save(self, args, state, control, train_dataloader=None, **_):
            torch.save(train_dataloader.state_dict(), f"{args.output_dir}/checkpoint-{state.global_step}/loader.pt")
            control.should_training_stop = stop_at is not None

    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=epochs,
        save_strategy="steps",
        save_steps=stop_at or 10**6,
        ignore_data_skip=True,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        logging_strategy="no",
        remove_unused_columns=False,
    )
    trainer = Trainer(Model(), arguments, train_dataset=ft.ItemDataset(pets, head), callbacks=[SaveLoader()])
    trainer.train(resume_from_checkpoint=resume)
    return seen, trainer


def stacked(samples):
    return {"samples": torch.stack([sample for sample, _ in samples])}


@pytest.mark.filterwarnings("ignore")
def test_a_hugging_face_trainer_resumes_in_the_middle_of_an_epoch(pets, data, tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed")
    first, _ = hugging_face_train(pets, tmp_path, 3, stop_at=TAKEN)
    assert len(first[0]) == TAKEN * BATCH
    rest, trainer = hugging_face_train(pets, tmp_path, 3, resume=str(tmp_path / f"checkpoint-{TAKEN}"))
    assert sorted(first[0] + rest[0]) == sorted(rest[1]) == sorted(rest[2]) == heads(data)
    assert trainer.state.global_step == 3 * STEPS
    assert_clean(trainer.loader, data, len(data) - TAKEN * BATCH)


def lightning_resume(address, folder, at, devices=1):
    """Trains with Lightning, stops after `at` batches, resumes: the samples of each epoch, and the audits."""
    import lightning.pytorch as lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.seen, self.audited = torch.nn.Linear(8, 1), {}, []

        def training_step(self, batch, _):
            self.seen.setdefault(self.current_epoch, []).extend(tuple(row) for row in batch[0].tolist())
            return self.layer(batch[0] / 255).square().mean()

        def on_train_epoch_end(self):
            self.audited.append(len(self.trainer.train_dataloader.audits))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    def fit(model, checkpoint=None, **how):
        loader = ft.Loader(ft.ItemDataset(fodder.connect(address).dataset("pets"), head), BATCH, seed=2)
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        ranks = {"devices": devices, "strategy": "ddp"} if devices > 1 else {"devices": 1}
        save = lightning.callbacks.ModelCheckpoint(folder, "at", every_n_train_steps=at, save_top_k=-1)
        callbacks = [] if checkpoint else [save]
        how = {"enable_checkpointing": not checkpoint, "callbacks": callbacks, **ranks, **quiet, **how}
        trainer = lightning.Trainer(accelerator="cpu", **how)
        trainer.fit(model, loader, ckpt_path=checkpoint, weights_only=False)
        return loader

    first, second = Model(), Model()
    fit(first, max_steps=at)
    loader = fit(second, f"{folder}/at.ckpt", max_epochs=3)
    return first.seen, second.seen, loader.audits, second.audited


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("at", [TAKEN, STEPS, STEPS + TAKEN])
def test_lightning_resumes_in_the_middle_of_an_epoch_and_the_next_is_whole(node, data, tmp_path, at):
    pytest.importorskip("lightning", reason="Lightning is not installed")
    first, second, audits, audited = lightning_resume(node.address, str(tmp_path), at)
    for epoch in range(3):
        assert sorted(first.get(epoch, []) + second.get(epoch, [])) == heads(data), epoch
    # Each is there when its epoch ends, and the last one at the end.
    assert all(audit.exact for audit in audits) and [audit.epoch for audit in audits] == sorted(second)
    assert audited[-len(audits) :] == list(range(1, len(audits) + 1))
    # No epoch has the order of another.
    assert second[2] != second.get(1) and second[2] != (first | second)[0]


def test_lightning_resumes_on_several_ranks(node, data, tmp_path):
    pytest.importorskip("lightning", reason="Lightning is not installed")
    (tmp_path / "ranks").mkdir()
    parts = in_ranks(lightning_resume, tmp_path / "ranks", node.address, str(tmp_path), 2, 2)
    for epoch in range(3):
        given = [sample for first, second, _, _ in parts for part in (first, second) for sample in part.get(epoch, [])]
        assert sorted(given) == heads(data), epoch
    for _, _, audits, _ in parts:
        assert len(audits) == 3 and all(audit.exact for audit in audits)
