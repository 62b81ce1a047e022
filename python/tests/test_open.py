"""`fodder.open`: joins this host's node, or starts one that ends with its last user."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tarfile
import time
import warnings
from pathlib import Path

import fodder
import pytest
from conftest import DEADLINE_S, Data, is_running, wait_for


def node_of(cache):
    return json.loads((cache / "LOCK").read_text())["pid"]


def children_of(parent):
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def first_item(origin, cache, barrier_dir):
    """Opens it at the same moment as seven others."""
    (barrier_dir / str(os.getpid())).touch()
    wait_for("the others", lambda: len(os.listdir(barrier_dir)) == 8)
    return fodder.open(origin, cache_dir=cache, cache_size="32MiB")[0], node_of(cache), os.getpid()


def test_ranks_that_open_at_once_share_one_node_which_ends_with_them(data, tmp_path):
    cache = tmp_path / "cache"
    (tmp_path / "ready").mkdir()
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        got = pool.starmap(first_item, [(data.folder, cache, tmp_path / "ready")] * 8, chunksize=1)
        assert {content for content, _, _ in got} == {data.content[0]}
        assert len({node for _, node, _ in got}) == 1 and len({pid for _, _, pid in got}) == 8
        pid = got[0][1]
        assert is_running(pid)
    wait_for("the node to end with its last user", lambda: not is_running(pid))


def test_a_running_node_is_joined(serve, data):
    node = serve(str(data.folder), "--name", "pets")
    pets = fodder.open(data.folder, cache_dir=node.cache)
    assert (pets.name, node_of(node.cache)) == ("pets", node.process.pid)
    assert pets[1] == data.content[1]


def test_a_layout_and_a_policy_may_be_chosen(serve, data):
    node = serve(str(data.folder), "--name", "pets")
    blocks = fodder.open(data.folder, cache_dir=node.cache, layout="blocks", policy="lru")
    stats = blocks.stats()
    assert blocks.name != "pets" and (stats.layout, stats.policy) == ("blocks", "lru")
    assert fodder.open(data.folder, cache_dir=node.cache, layout="blocks") == blocks
    assert fodder.open(data.folder, cache_dir=node.cache, name="other").name == "other"


def test_a_share_of_a_dataset_may_be_cached(data, tmp_path):
    pets = fodder.open(data.folder, cache_dir=tmp_path / "cache", cache_size="50%")
    assert not pets.warm(progress=False)["complete"]
    stats = pets.stats()
    assert 0.2 < stats.cached_bytes / stats.total_bytes <= 0.5


def test_a_node_of_ones_own_that_is_killed_is_started_again(data, tmp_path):
    cache = tmp_path / "cache"
    pets = fodder.open(data.folder, cache_dir=cache, cache_size="32MiB")
    assert pets[0] == data.content[0]
    before = node_of(cache)
    os.kill(before, signal.SIGKILL)
    assert [bytes(view) for view in pets.get_batch(range(len(data)))] == data.content
    assert pets.stats().items == len(data)
    after = node_of(cache)
    assert after != before
    del pets
    wait_for("the node to end with its last user", lambda: not is_running(after))


def test_what_cannot_be_opened_says_why(tmp_path):
    with pytest.raises(fodder.FodderError, match="/no/such/place"):
        fodder.open("/no/such/place", cache_dir=tmp_path / "cache")
    with pytest.raises(fodder.FodderError, match="layout"):
        fodder.open(tmp_path, cache_dir=tmp_path / "cache", layout="nonsense")
    with pytest.raises(ValueError, match='"lots" is neither a size such as') as caught:
        fodder.open(tmp_path, cache_dir=tmp_path / "cache", cache_size="lots")
    assert "--help" not in str(caught.value)


def test_a_program_that_is_missing_says_how_to_name_it(data, monkeypatch, tmp_path):
    monkeypatch.setenv("FODDER_PROGRAM", str(tmp_path / "nothing"))
    with pytest.raises(LookupError, match="nothing"):
        fodder.open(data.folder)


def test_an_origin_that_takes_long_to_list_is_waited_for(data, tmp_path, monkeypatch):
    # An hour passes for whoever looks at this clock while the node lists.
    monkeypatch.setattr(subprocess, "_time", lambda: 3600 * time.monotonic())
    slow = fodder.open(f"throttled:latency=1s:{data.folder}", cache_dir=tmp_path / "cache", cache_size="32MiB")
    assert len(slow) == len(data)


def test_ctrl_c_while_an_origin_is_listed_ends_at_once_and_leaves_no_node(data, tmp_path):
    cache = tmp_path / "cache"
    code = (
        "import fodder, signal\n"
        # Whoever runs the tests in the background has it ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"try: fodder.open('throttled:latency=1h:{data.folder}', cache_dir={str(cache)!r}, cache_size='32MiB')\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    started = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    wait_for("the node to listen", lambda: (cache / "LOCK").exists() and "fodder.sock" in (cache / "LOCK").read_text())
    node, joining = node_of(cache), children_of(started.pid)
    assert is_running(node) and len(joining) == 1
    begun = time.monotonic()
    os.kill(started.pid, signal.SIGINT)
    said, _ = started.communicate(timeout=DEADLINE_S)
    assert said.strip() == "interrupted" and time.monotonic() - begun < 10
    assert not is_running(joining[0])
    wait_for("the node to end with its only user", lambda: not is_running(node))


def test_ctrl_c_while_warming_ends_at_once_and_leaves_no_node(tmp_path):
    data = Data(tmp_path / "data")
    cache = tmp_path / "cache"
    code = (
        "import fodder, os, signal, sys, threading\n"
        # Whoever runs the tests in the background has it ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"ds = fodder.open('throttled:latency=2s:{data.folder}', cache_dir={str(cache)!r}, cache_size='32MiB')\n"
        "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "try: ds.warm(workers=1, progress=False)\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "interrupted", done.stderr
    pid = node_of(cache)
    wait_for("the node to end with its last user", lambda: not is_running(pid))


def test_an_origin_that_does_not_exist_is_a_file_that_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match="nope") as raised:
        fodder.open(tmp_path / "nope", cache_dir=tmp_path / "cache", cache_size="32MiB")
    error = raised.value
    assert isinstance(error, fodder.errors.NotFound)
    assert (error.errno, error.filename) == (errno.ENOENT, str(tmp_path / "nope"))
    assert str(error).startswith("[Errno 2] the origin does not exist")


def test_settings_without_effect_on_a_dataset_that_the_node_has_are_named(serve, data):
    node = serve(str(data.folder), "--name", "pets")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fodder.open(data.folder, cache_dir=node.cache, policy="minio", cache_size="64MiB")
    with pytest.warns(UserWarning, match=r"have no effect on it: policy lru \(it has minio\)") as warned:
        fodder.open(data.folder, cache_dir=node.cache, policy="lru")
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="have no effect on it: cache size 20%; remove it first"):
        fodder.open(data.folder, cache_dir=node.cache, cache_size="20%")
    with pytest.warns(UserWarning, match=r"cache size 1\.0 GiB has no effect: .* already running with 64\.0 MiB"):
        fodder.open(data.folder, cache_dir=node.cache, cache_size="1GiB")


def test_a_layout_that_does_not_fit_the_files_is_a_warning(serve, data, tmp_path):
    node = serve(str(data.folder), "--name", "pets")
    with pytest.warns(UserWarning, match="has no items: none of its 36 objects is a file of layout"):
        shards = fodder.open(data.folder, cache_dir=node.cache, layout="tar")
    assert len(shards) == 0
    (tmp_path / "shards").mkdir()
    for number in range(2):
        with tarfile.open(tmp_path / "shards" / f"{number}.tar", "w") as archive:
            archive.add(data.folder / data.paths[number], data.paths[number])
    with pytest.warns(UserWarning, match=r'has only \*\.tar files.* use the layout "tar"'):
        fodder.open(tmp_path / "shards", cache_dir=node.cache)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(fodder.open(tmp_path / "shards", cache_dir=node.cache, layout="tar")) == 2
