"""Evicting while others use the data: what is freed, and what is not and why."""

from __future__ import annotations

import time

import fodder
import pytest
from conftest import Data, wait_for


@pytest.fixture
def data(tmp_path):
    """Files that are large enough to be leased."""
    return Data(tmp_path / "data", each=8, size=20_000)


def test_an_eviction_says_that_a_job_is_open_and_is_not_undone_while_it_is_idle(serve, data):
    ft = pytest.importorskip("fodder.torch", reason="torch is not installed")
    node = serve(str(data.folder), "--name", "pets")
    pets = fodder.connect(node.address).dataset("pets")
    loader = ft.Loader(ft.ItemDataset(pets), batch_size=4, seed=1, job="resnet")
    batches = iter(loader)
    next(batches)
    wait_for("the whole plan to be fetched", lambda: pets.stats().cached_bytes >= pets.stats().total_bytes)
    evicted = pets.evict()
    assert evicted.pieces == len(data)
    assert evicted.bytes >= sum(map(len, data.content))
    assert evicted.jobs == ["resnet"]
    assert "not freed: open jobs: resnet; " in repr(evicted)
    # Longer than the second after which a node looks after its jobs.
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        assert pets.stats().cached_bytes == 0, "the idle loader's plan was fetched again"
    next(batches)
    wait_for("the plan to be fetched again", lambda: pets.stats().cached_bytes > 5 * 40_000)
    assert sum(len(labels) for _, labels in batches) == len(data) - 8
    loader.close()


def test_an_eviction_without_readers_says_only_what_it_freed(serve, data):
    pets = fodder.connect(serve(str(data.folder), "--name", "pets").address).dataset("pets")
    pets.warm(progress=False)
    evicted = pets.evict()
    assert evicted.remaining == []
    assert repr(evicted).startswith(f"evicted {len(data)} pieces, ")
    assert pets.stats().cached_bytes == 0
