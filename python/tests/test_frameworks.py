"""NumPy, JAX, Grain and TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("world", [1, 3])
def test_numpy_batches_are_an_epoch_shared_by_ranks(pets, data, world):
    def epoch(number, **order):
        ranks = [list(pets.batches(5, epoch=number, rank=rank, world=world, **order)) for rank in range(world)]
        return [(bytes(sample), int(label)) for rank in ranks for batch in rank for sample, label in zip(*batch)]

    everything = list(zip(data.content, data.labels))
    assert sorted(epoch(0, seed=1)) == sorted(everything)
    assert epoch(0, seed=1) != epoch(1, seed=1)
    if world == 1:
        assert epoch(0) == everything
    first, labels = next(pets.batches(5))
    assert first[0].dtype == np.uint8 and labels.dtype == np.int64


def test_a_dataset_is_a_source_for_grain(pets, data):
    grain = pytest.importorskip("grain.python", reason="Grain is not installed")
    loaded = grain.MapDataset.source(pets).shuffle(seed=3)
    assert isinstance(pets, grain.RandomAccessDataSource)
    assert sorted(loaded[index] for index in range(len(loaded))) == sorted(data.content)


def test_jax_computes_on_an_epoch(pets, data):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    total = jax.jit(lambda rows: rows.astype("int32").sum())
    summed, classes = 0, []
    for samples, labels in pets.batches(6, seed=4):
        summed += int(total(jax.numpy.asarray(np.stack([sample[:100] for sample in samples]))))
        classes += jax.numpy.asarray(labels).tolist()
    assert summed == sum(sum(content[:100]) for content in data.content)
    assert sorted(classes) == data.labels


def test_a_dataset_is_a_tf_data_dataset(pets, data):
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    import fodder.tensorflow

    everything = sorted(zip(data.content, data.labels))

    def elements(**order):
        loaded = fodder.tensorflow.dataset(pets, fetch=7, **order).prefetch(2)
        return [(content, int(label)) for content, label in loaded.as_numpy_iterator()]

    assert sorted(elements(seed=2)) == everything
    assert elements(seed=2) == elements(seed=2) != elements(seed=2, epoch=1)
    assert sorted(elements(seed=2, world=2) + elements(seed=2, world=2, rank=1)) == everything
