"""Cache files that a process keeps open: a warm `ds[i]` needs no round trip, and its bytes are always right."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys

import fodder
import pytest
from conftest import Data, wait_for


@pytest.fixture
def data(tmp_path):
    """Files that are large enough to be leased."""
    return Data(tmp_path / "data", each=8, size=20_000)


@pytest.fixture
def node(serve, data):
    return serve(str(data.folder), "--name", "pets", "--policy", "lru")


@pytest.fixture
def warm(node):
    pets = fodder.connect(node.address).dataset("pets")
    pets.warm(progress=False)
    return pets


def held(dataset):
    return dataset.client._node.held_leases()


def read_all(dataset, data):
    assert [dataset[n] for n in range(len(data))] == data.content


def cache_files():
    """Cache files that this process has open."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    return [link for link in links if "/tier/data/" in link]


def test_a_warm_item_is_read_again_though_the_node_does_not_answer(node, warm, data):
    read_all(warm, data)
    assert held(warm) == len(data)
    node.pause()
    try:
        read_all(warm, data)
    finally:
        node.process.send_signal(18)


def test_small_items_are_not_leased_and_large_ones_beside_them_are(serve, tmp_path):
    folder = tmp_path / "mixed"
    folder.mkdir()
    content = [bytes([number]) * (20_000 if number % 2 else 20) for number in range(20)]
    for number, each in enumerate(content):
        (folder / f"{number:02}").write_bytes(each)
    mixed = fodder.connect(serve(str(folder), "--name", "mixed").address).dataset("mixed")
    mixed.warm(progress=False)
    for _ in range(3):
        assert [mixed[number] for number in range(20)] == content
    assert held(mixed) == 10
    assert mixed.stats().bytes_from_origin == sum(map(len, content))


def test_reads_of_kept_files_count_as_hits(warm, data):
    for _ in range(3):
        read_all(warm, data)
    wait_for("all reads to be reported", lambda: warm.stats().hits >= 3 * len(data))
    assert warm.stats().hits == 3 * len(data)


def test_an_evicted_file_is_returned_and_its_space_is_free_again(warm, data):
    read_all(warm, data)
    evicted = warm.evict()
    assert evicted.leased_files == len(data)
    wait_for("the leases to be returned", lambda: held(warm) == 0)
    wait_for("the space to be free", lambda: warm.stats().cached_bytes == 0)
    read_all(warm, data)


def test_a_changed_file_is_read_anew_after_a_refresh_and_the_old_snapshot_stays(warm, data):
    read_all(warm, data)
    (data.folder / data.paths[0]).write_bytes(b"x" * 30_000)
    new = warm.refresh()
    assert new[0] == b"x" * 30_000
    assert warm[0] == data.content[0]
    assert new[1] == data.content[1]


def test_leases_of_a_node_that_ended_are_dropped_and_taken_anew(node, warm, data):
    read_all(warm, data)
    node.kill()
    # Before there is another node, which may remove the files.
    wait_for("the leases to be dropped", lambda: held(warm) == 0)
    node.start()
    read_all(warm, data)

    def kept():
        read_all(warm, data)
        return held(warm) == len(data)

    wait_for("all items to be kept open again", kept)


def in_child(dataset, data, queue):
    inherited = cache_files()
    read_all(dataset, data)
    queue.put((len(inherited), held(dataset)))


def test_a_forked_child_closes_what_its_parent_keeps_open_and_has_its_own(warm, data):
    read_all(warm, data)
    assert len(cache_files()) == len(data)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(warm, data, queue))
    child.start()
    assert queue.get(timeout=60) == (0, len(data))
    child.join(60)
    assert child.exitcode == 0
    read_all(warm, data)
    assert len(cache_files()) == len(data)


LIMITED = """
import sys, fodder
pets = fodder.connect(sys.argv[1]).dataset("pets")
first = [pets[n] for n in range(len(pets))]
assert [pets[n] for n in reversed(range(len(pets)))] == first[::-1]
print(pets.client._node.held_leases(), sum(map(len, first)))
"""


def test_no_more_than_a_quarter_of_the_files_that_may_be_open_are_kept(node, warm, data):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, node.address], preexec_fn=limit, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    kept, total = map(int, ended.stdout.split())
    assert 0 < kept <= 10
    assert total == sum(map(len, data.content))


REFUSED = """
import sys, fodder
pets = fodder.connect(sys.argv[1]).dataset("pets")
cached = int(sys.argv[2])
for n in range(cached):
    pets[n]
before = pets.client._node.held_leases()
pets[cached]
print(before, pets.client._node.held_leases())
"""


def test_kept_files_are_not_dropped_for_leases_that_the_node_does_not_grant(node, data):
    pets = fodder.connect(node.address).dataset("pets")
    pets.warm("class0", progress=False)
    cached = sum(path.startswith("class0/") for path in data.paths)

    def limit():
        # Of the ten places, the items of one class leave two free.
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    command = [sys.executable, "-c", REFUSED, node.address, str(cached)]
    ended = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    before, after = map(int, ended.stdout.split())
    assert before == after == cached


def test_items_over_tcp_are_read_without_leases(node, warm, data):
    pets = fodder.connect(node.tcp).dataset("pets")
    read_all(pets, data)
    assert held(pets) == 0


def test_an_item_that_is_not_cached_is_fetched_and_later_kept(node, data):
    pets = fodder.connect(node.address).dataset("pets")
    read_all(pets, data)

    def kept():
        read_all(pets, data)
        return held(pets) == len(data)

    wait_for("all items to be kept open", kept)
