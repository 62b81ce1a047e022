"""A loop that ends early, and workers that fail or are killed: nothing is left behind, and the next pass is whole."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import Data, is_running, members_of, wait_for

torch = pytest.importorskip("torch", reason="torch is not installed")

import fodder.torch as ft  # noqa: E402
from test_torch_loader import as_list, id_of, ids_in, loader_of  # noqa: E402


def test_a_worker_that_is_killed_is_an_error_and_not_a_wait(pets):
    loader = loader_of(pets, batch_size=2, num_workers=1)
    with pytest.raises(RuntimeError, match="worker"):
        for _ in loader:
            for child in torch.multiprocessing.active_children():
                os.kill(child.pid, signal.SIGKILL)
    assert len(list(loader)) > 0


@pytest.mark.parametrize("persist", [False, True], ids=["ends", "persists"])
def test_a_pass_that_is_left_early_leaves_no_thread_and_the_next_is_whole(pets, data, by_content, persist):
    loader = loader_of(pets, batch_size=3, num_workers=2, persistent_workers=persist)
    for taken in (1, 2, 5):
        for number, _ in enumerate(loader, 1):
            assert number <= taken
            if number == taken:
                break
        gc.collect()
        assert not threads_ahead()
        assert sorted(ids_in(loader, by_content)) == list(range(len(data)))
        assert loader.audits[-2].omissions == len(data) - 3 * taken and loader.audits[-1].exact
        assert not threads_ahead()
    loader.close()
    assert not torch.multiprocessing.active_children()


@pytest.mark.parametrize("persist", [False, True], ids=["ends", "persists"])
def test_what_a_worker_raises_comes_when_its_batch_is_due(pets, data, by_content, persist):
    unwanted = data.content[int(np.frombuffer(loader_of(pets)._begin().plan.ids(0, 12, 1)[0], np.uint32)[0])][:8]

    def refuse(view):
        if refusing.value and view[:8] == unwanted:
            raise ZeroDivisionError("no such picture")
        return id_of(view)

    refusing = torch.multiprocessing.get_context("fork").Value("b", True)
    dataset = ft.ItemDataset(pets, refuse)
    loader = ft.Loader(dataset, 5, collate_fn=as_list, num_workers=2, persistent_workers=persist)
    taken = []
    with pytest.raises(ZeroDivisionError, match="no such picture"):
        for batch in loader:
            taken.append(batch)
    assert len(taken) == 2 and not threads_ahead()
    refusing.value = False
    assert sorted(ids_in(loader, by_content)) == list(range(len(data)))
    loader.close()


def test_workers_that_persist_are_started_anew_when_one_was_killed(pets, data, by_content):
    loader = loader_of(pets, batch_size=2, num_workers=2, persistent_workers=True)
    with pytest.raises(RuntimeError, match="worker"):
        for _ in loader:
            for child in torch.multiprocessing.active_children():
                os.kill(child.pid, signal.SIGKILL)
    assert sorted(ids_in(loader, by_content)) == list(range(len(data)))
    loader.close()


def threads_ahead():
    return [thread for thread in threading.enumerate() if thread.name == "fodder-ahead"]


@pytest.mark.parametrize("everyone", [False, True], ids=["the loop", "its workers too"])
def test_ctrl_c_in_an_epoch_leaves_no_process_no_node_and_no_shared_memory(tmp_path, everyone):
    data = Data(tmp_path / "data")
    cache = tmp_path / "cache"
    code = (
        "import os, signal, torch, fodder, fodder.torch as ft\n"
        # Whoever runs the tests in the background has it ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def large(view): return torch.full((65536,), view[0])\n"
        f"origin = 'throttled:latency=50ms:{data.folder}'\n"
        f"dataset = ft.ItemDataset(origin, large, cache_dir={str(cache)!r}, cache_size='32MiB')\n"
        "loader = ft.Loader(dataset, batch_size=2, num_workers=2)\n"
        "for number, batch in enumerate(loader):\n"
        "    if number == 3: print('now', flush=True)\n"
        "    if number >= 3: signal.pause()\n"
    )
    before = set(os.listdir("/dev/shm"))
    started = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stdout.readline() == "now\n", started.stderr.read()
    members = members_of(started.pid)
    # A terminal tells the whole group.
    os.killpg(started.pid, signal.SIGINT) if everyone else os.kill(started.pid, signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert "KeyboardInterrupt" in said and started.returncode != 0, said
    assert len(members) == 3
    wait_for("the workers to end", lambda: not any(is_running(pid) for pid in members))
    pid = json.loads((cache / "LOCK").read_text())["pid"]
    wait_for("the node to end with its last user", lambda: not is_running(pid))
    assert not [name for name in set(os.listdir("/dev/shm")) - before if name.startswith("torch")]
