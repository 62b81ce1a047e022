"""NumPy, Grain and TensorFlow."""

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


def test_a_dataset_is_a_tf_data_dataset(pets, data):
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    import fodder.tensorflow

    elements = list(fodder.tensorflow.dataset(pets, seed=2).as_numpy_iterator())
    assert sorted((content, int(label)) for content, label in elements) == sorted(zip(data.content, data.labels))
