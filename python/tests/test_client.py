"""Items, batches and what is known of a dataset, over a real node."""

from __future__ import annotations

import ast
import gc
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path

import fodder
import numpy as np
import pytest
from conftest import wait_for


def test_importing_it_imports_no_framework():
    code = (
        "import sys, fodder\n"
        "print([name for name in ('numpy', 'torch', 'tensorflow', 'jax', 'fsspec') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_readme_imports_the_modules_that_it_uses():
    text = (Path(__file__).parents[1] / "README.md").read_text()
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        imports = [node for node in ast.walk(ast.parse(example)) if isinstance(node, ast.Import)]
        imported = {name.name for node in imports for name in node.names}
        assert set(re.findall(r"fodder\.(?:fsspec|tensorflow|torch)(?=\.)", example)) <= imported


def test_items_are_the_files_in_imagefolder_order(pets, data):
    assert len(pets) == len(data)
    assert [pets[index] for index in range(len(data))] == data.content
    assert pets[-1] == data.content[-1]
    assert list(pets) == data.content
    assert pets.names == data.paths
    assert pets.labels.tolist() == data.labels
    assert pets.classes == ["class0", "class1", "class2"]
    assert pets.sizes.tolist() == [len(content) for content in data.content]


@pytest.mark.parametrize("door", ["address", "tcp"])
def test_a_batch_is_views_into_one_buffer(node, data, door):
    pets = fodder.connect(getattr(node, door)).dataset("pets")
    ids = [5, 0, 5, 30]
    batch = pets.get_batch(np.array(ids))
    assert len(batch) == 4 and batch.ids == batch.asked == ids
    assert [bytes(view) for view in batch] == [data.content[index] for index in ids]
    assert batch.labels == [data.labels[index] for index in ids]
    assert all(isinstance(view, memoryview) for view in batch.data)
    assert batch[0].obj is batch[3].obj
    assert np.frombuffer(batch[1], np.uint8).nbytes == len(data.content[0])
    assert batch.nbytes == sum(len(data.content[index]) for index in ids)
    with pytest.raises(IndexError):
        batch[4]
    assert len(pets.get_batch([])) == 0


def test_a_buffer_is_used_again_only_when_nobody_sees_it(pets, data):
    kept = [pets.get_batch([index]) for index in range(len(data))]
    views = [batch[0] for batch in kept]
    del kept
    for index in range(len(data)):
        pets.get_batch([len(data) - 1 - index])
    assert [bytes(view) for view in views] == data.content
    del views
    gc.collect()
    assert [bytes(pets.get_batch([index])[0]) for index in range(len(data))] == data.content


def test_an_index_out_of_range_is_an_index_error(pets, data):
    for index in (len(data), -len(data) - 1, 10**12):
        with pytest.raises(IndexError, match="pets"):
            pets[index]
        with pytest.raises(fodder.FodderError):
            pets.get_batch([0, index])
    for index in ("1", 1.5, None, slice(2)):
        with pytest.raises(TypeError):
            pets[index]


def test_a_dataset_may_be_refreshed_and_opened_any_number_of_times(serve, tmp_path):
    folder = tmp_path / "growing"
    folder.mkdir()
    (folder / "0.png").write_bytes(b"0")
    ds = first = fodder.connect(serve(str(folder), "--name", "growing").address).dataset("growing")
    for number in range(1, 270):
        (folder / f"{number}.png").write_bytes(str(number).encode())
        ds = ds.refresh()
        assert len(ds) == number + 1 and len(ds[number]) > 0
    assert len(first) == 1
    again = first.client.dataset("growing")
    assert sorted(int(item) for item in again) == list(range(270))


def test_a_dataset_that_does_not_exist_says_which_do(node):
    with pytest.raises(LookupError, match=r"no dataset 'cars'; the node at .* has: pets"):
        fodder.connect(node.address).dataset("cars")


def test_a_wrong_address_says_what_was_tried(tmp_path, monkeypatch):
    with pytest.raises(ConnectionError, match=r"Tried:\n  127\.0\.0\.1:1: Connection refused \(os error 111\)$"):
        fodder.connect("127.0.0.1:1")
    monkeypatch.setenv("FODDER_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("FODDER_ADDR", raising=False)
    with pytest.raises(fodder.errors.Unavailable, match=f"unix:{tmp_path}/fodder.sock"):
        fodder.connect()
    with pytest.raises(ValueError, match="HOST:PORT"):
        fodder.connect("nonsense")


def test_a_node_is_found_by_its_cache_directory_and_by_its_address(node, monkeypatch):
    monkeypatch.setenv("FODDER_CACHE_DIR", str(node.cache))
    assert fodder.connect().datasets() == ["pets"]
    monkeypatch.setenv("FODDER_ADDR", node.tcp)
    assert fodder.connect().address == node.tcp


def test_warming_tells_how_far_it_is_and_stats_print_well(serve, data):
    pets = fodder.connect(serve(str(data.folder), "--name", "pets").address).dataset("pets")
    told = []
    result = pets.warm(progress=told.append)
    total = sum(len(content) for content in data.content)
    assert result["complete"] and result["bytes_there"] == total and told[-1] == result
    stats = pets.stats()
    assert stats.items == len(data) and stats.cached_bytes >= total
    assert "pets (files, minio)" in repr(stats) and "<table>" in stats._repr_html_()
    # The share of the data, apart from the blocks that it occupies.
    assert re.search(r"^cached +100% of .+, .+ on disk$", repr(stats), re.M), repr(stats)
    pets[0]
    assert pets.stats().hits >= 1
    assert pets.evict().bytes > 0
    with pytest.raises(AttributeError, match="bytes_served"):
        _ = stats.nothing


def test_objects_are_read_by_path(pets, data):
    path, content = data.paths[3], data.content[3]
    assert pets.read(path) == content
    assert pets.read(path, 10, 5) == content[10:15]
    assert pets.read(path, 7, 0) == b""
    with pytest.raises(LookupError, match=r"nothing\.png"):
        pets.read("nothing.png")


def test_a_pickled_dataset_is_the_same_at_the_same_snapshot(pets, data):
    again = pickle.loads(pickle.dumps(pets))
    assert again == pets and again.snapshot == pets.snapshot and again[2] == data.content[2]


def test_a_dataset_stays_as_it_was_when_files_are_added(serve, tmp_path):
    folder = tmp_path / "grows"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "1.png").write_bytes(b"one")
    before = fodder.connect(serve(str(folder), "--name", "grows").address).dataset("grows")
    (folder / "a" / "0.png").write_bytes(b"zero")
    after = before.refresh()
    assert (len(before), before[0]) == (1, b"one")
    assert (len(after), after[0]) == (2, b"zero")


def read_all(dataset):
    """For other processes."""
    return [bytes(view) for view in dataset.get_batch(range(len(dataset)))]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_other_processes_read_however_they_are_started(pets, data, method):
    assert pets[0] == data.content[0]
    with multiprocessing.get_context(method).Pool(2) as pool:
        for got in pool.map(read_all, [pets, pets, pets]):
            assert got == data.content
    assert read_all(pets) == data.content


def test_threads_share_a_client(pets, data):
    wrong = []

    def read():
        for index in range(len(data)):
            if pets[index] != data.content[index]:
                wrong.append(index)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_children_forked_while_threads_read_do_not_hang(pets, data):
    stop = threading.Event()

    def read():
        while not stop.is_set():
            read_all(pets)
            pets.stats()

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    context = multiprocessing.get_context("fork")
    children = []
    for _ in range(12):
        child = context.Process(target=check_all, args=(pets, data.content))
        child.start()
        children.append(child)
    for child in children:
        child.join(60)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert [child.exitcode for child in children] == [0] * 12


def check_all(dataset, content):
    assert read_all(dataset) == content
    assert dataset.stats().items == len(content)


def test_a_node_that_restarts_is_reconnected_to(serve, data):
    node = serve(str(data.folder), "--name", "pets")
    pets = fodder.connect(node.address).dataset("pets")
    assert read_all(pets) == data.content
    node.kill()
    again = threading.Timer(0.5, node.start)
    again.start()
    assert read_all(pets) == data.content
    assert pets.stats().items == len(data)
    again.join()


def test_a_node_that_stays_away_is_an_error_and_no_wait_for_ever(serve, data):
    node = serve(str(data.folder), "--name", "pets")
    pets = fodder.connect(node.address, patience=0.3).dataset("pets")
    node.kill()
    for call in (lambda: pets[0], pets.stats, lambda: pets.get_batch([1])):
        with pytest.raises(fodder.errors.Unavailable, match="cannot reach the node"):
            call()


def test_a_slow_read_ends_at_once_with_ctrl_c(serve, data):
    node = serve(f"throttled:bandwidth=20B/s:{data.folder}", "--name", "slow")
    code = (
        "import fodder, os, signal, threading\n"
        # Whoever runs the tests in the background has it ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"ds = fodder.connect({node.address!r}, timeout=60).dataset('slow')\n"
        "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "try: ds[0]\n"
        "except KeyboardInterrupt: print('interrupted', flush=True); os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "interrupted", done.stderr
    node.kill()


def test_a_node_is_not_asked_in_vain_after_its_client_is_gone(serve, data):
    node = serve(str(data.folder), "--name", "pets")
    pets = fodder.connect(node.address).dataset("pets")
    assert pets[0] == data.content[0]
    fds = f"/proc/{node.process.pid}/fd"
    before = len(os.listdir(fds))
    del pets
    gc.collect()
    wait_for("the connections to be closed", lambda: len(os.listdir(fds)) < before)
