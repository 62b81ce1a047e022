"""Several nodes: a rank whose node is gone goes on at another one, and nobody loses count."""

from __future__ import annotations

import threading
import time

import fodder
import pytest
from conftest import serving, wait_for

torch = pytest.importorskip("torch", reason="torch is not installed")

import fodder.torch as ft  # noqa: E402
from test_torch_loader import MODES, ids_in, loader_of  # noqa: E402


def jobs_of(node):
    return fodder.connect(node.tcp).dataset("pets").jobs()


def is_exact(node, name, items):
    """Whether a node has closed an epoch of a job, in which every item was consumed once."""
    last = [job["last"] for job in jobs_of(node) if job["name"] == name and job["last"] is not None]
    counts = ("consumed", "duplicates", "omissions")
    return [tuple(audit[count] for count in counts) for audit in last] == [(items, 0, 0)]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: type(mode).__name__.lower())
@pytest.mark.parametrize("workers", [0, 2])
def test_a_rank_whose_nodes_are_killed_goes_on_at_another_with_each_item_once(cluster, data, by_content, mode, workers):
    nodes = cluster(3)
    pets = fodder.connect(",".join(node.tcp for node in nodes)).dataset("pets")
    loader = loader_of(pets, batch_size=1, mode=mode, num_workers=workers, job="moving", seed=5)
    given = []
    for number, batch in enumerate(loader):
        given += ids_in([batch], by_content)
        # When nothing was acknowledged yet, and when some of it was.
        if number == 3:
            nodes[0].kill()
        if number == 25:
            nodes[1].kill()
    assert len(given) == len(data) and loader.audits[0].exact
    if not isinstance(mode, ft.Approx):
        assert sorted(given) == list(range(len(data)))
    assert len(ids_in(loader, by_content)) == len(data)
    assert is_exact(nodes[2], "moving", len(data))
    loader.close()


@pytest.mark.parametrize("mode", MODES[:2], ids=lambda mode: type(mode).__name__.lower())
@pytest.mark.parametrize("workers", [0, 2])
def test_a_rank_whose_node_hangs_goes_on_at_another_long_before_its_timeout(cluster, data, by_content, mode, workers):
    nodes = cluster(2)
    # Nobody waits that long: what ends the wait is that the node does not greet either.
    pets = fodder.connect([node.tcp for node in nodes], timeout=600).dataset("pets")
    loader = loader_of(pets, batch_size=1, mode=mode, num_workers=workers, job="stuck", seed=5)
    given = []
    begun = time.monotonic()
    for number, batch in enumerate(loader):
        given += ids_in([batch], by_content)
        if number == 20:
            nodes[0].pause()
    assert time.monotonic() - begun < 120
    assert sorted(given) == list(range(len(data))) and loader.audits[0].exact
    assert len(ids_in(loader, by_content)) == len(data)
    assert is_exact(nodes[1], "stuck", len(data))
    loader.close()


@pytest.mark.parametrize("mode", MODES[:2], ids=lambda mode: type(mode).__name__.lower())
def test_ranks_at_three_nodes_share_an_epoch_though_one_of_the_nodes_is_killed(cluster, data, by_content, mode):
    nodes = cluster(3)
    ranks = []
    for rank in range(3):
        nearest_first = [node.tcp for node in nodes[rank:] + nodes[:rank]]
        pets = fodder.connect(nearest_first).dataset("pets")
        how = {"mode": mode, "job": "ranks", "rank": rank, "world": 3, "uneven": "exact", "seed": 8}
        ranks.append(loader_of(pets, batch_size=2, num_workers=1, **how))
    given = []
    for epoch in range(2):
        passes = [iter(loader) for loader in ranks]
        for step in range(len(ranks[0])):
            if (epoch, step) == (0, 2):
                nodes[1].kill()
            for batches in passes:
                given += ids_in([next(batches)], by_content)
        assert all(next(batches, None) is None for batches in passes)
        assert sorted(given) == sorted(list(range(len(data))) * (epoch + 1))
    for node in (nodes[0], nodes[2]):
        wait_for("the epoch to be closed", lambda node=node: is_exact(node, "ranks", len(data)))
    for loader in ranks:
        loader.close()


@pytest.mark.parametrize("mode", MODES[:2], ids=lambda mode: type(mode).__name__.lower())
def test_nodes_are_restarted_one_after_the_other_under_a_loop_that_notices_nothing(cluster, data, by_content, mode):
    nodes = cluster(3)
    pets = fodder.connect([node.tcp for node in nodes]).dataset("pets")
    loader = loader_of(pets, batch_size=1, mode=mode, num_workers=2, persistent_workers=True, job="rolling", seed=5)
    given = []
    for number, batch in enumerate(loader):
        given += ids_in([batch], by_content)
        loader.report(losses=[float(index) for index in loader.ids])
        if number % 10 == 5 and number < 30:
            node = nodes[number // 10]
            address = node.tcp
            node.stop()
            node.start("--grpc", address)
            wait_for("the node to be back", lambda node=node: serving(node) == 3)
            wait_for("the job to be there again", lambda node=node: any(jobs_of(node)))
    assert sorted(given) == list(range(len(data))) and loader.audits[0].exact
    next(iter(loader))
    for node in nodes:
        wait_for("the epoch to be closed", lambda node=node: is_exact(node, "rolling", len(data)))
    loader.close()


def test_a_node_that_dies_between_a_resume_and_its_epoch_parts_no_rank_from_the_others(cluster, data, by_content):
    nodes = cluster(3)

    def start(attempt):
        for rank in range(2):
            pets = fodder.connect([node.tcp for node in nodes[rank:] + nodes[:rank]]).dataset("pets")
            how = {"job": "parted", "rank": rank, "world": 2, "uneven": "exact", "seed": 8, "attempt": attempt}
            yield loader_of(pets, batch_size=2, **how)

    ranks = list(start(1))
    passes = [iter(loader) for loader in ranks]
    given = [index for _ in range(3) for batches in passes for index in ids_in([next(batches)], by_content)]
    states = [loader.state_dict() for loader in ranks]
    ranks = list(start(2))
    for loader, state in zip(ranks, states):
        loader.load_state_dict(state)
    passes = [iter(loader) for loader in ranks]
    begin, others = ranks[0]._seat.begin, []

    def begin_when_the_node_is_dead(*args):
        # Rank 0 has resumed there, and the node of rank 1 hears of it.
        others.append(next(passes[1]))
        nodes[0].kill()
        ranks[0]._seat.begin = begin
        return begin(*args)

    ranks[0]._seat.begin = begin_when_the_node_is_dead
    given += ids_in(passes[0], by_content) + ids_in(others, by_content) + ids_in(passes[1], by_content)
    assert sorted(given) == list(range(len(data)))
    for loader in ranks:
        next(iter(loader))
    for node in nodes[1:]:
        wait_for("the epoch to be closed", lambda node=node: is_exact(node, "parted", len(data)))


class AnswersOnlyNodes:
    """What a node of a cluster with a token is to clients on other machines."""

    def __getattr__(self, _):
        def deny(*args, **how):
            raise fodder.errors.Denied("this node answers other machines only if they are nodes of its cluster")

        return deny


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_passes_over_a_node_that_answers_no_clients_and_waits_for_its_own(serve, data, by_content, workers):
    own = serve(str(data.folder), "--name", "pets")
    other = "127.0.0.1:1"
    pets = fodder.connect([other, own.tcp]).dataset("pets")
    pets.client._each[other] = AnswersOnlyNodes()
    loader = loader_of(pets, batch_size=2, num_workers=workers, mode=ft.Reorder(10))
    given = []
    for number, batch in enumerate(loader):
        given += ids_in([batch], by_content)
        if number == 5:
            address = own.tcp
            own.kill()
            threading.Timer(0.5, own.start, ("--grpc", address)).start()
    assert sorted(given) == list(range(len(data))) and loader.audits[0].exact
    pets.client._each[own.tcp] = AnswersOnlyNodes()
    with pytest.raises(fodder.errors.Denied, match="only if they are nodes"):
        next(iter(loader_of(pets)))


def test_what_was_consumed_last_is_told_though_the_node_is_killed_at_the_end(cluster, data, by_content):
    nodes = cluster(2)
    pets = fodder.connect([node.tcp for node in nodes]).dataset("pets")
    loader = loader_of(pets, batch_size=2, job="ending")
    given = []
    for number, batch in enumerate(loader):
        given += ids_in([batch], by_content)
        if number == len(loader) - 1:
            nodes[0].kill()
    assert sorted(given) == list(range(len(data)))
    next(iter(loader))
    assert is_exact(nodes[1], "ending", len(data))
    loader.close()


def test_items_are_read_from_another_node_when_the_first_is_gone(cluster, data):
    nodes = cluster(2)
    # One that was never there is passed over.
    pets = fodder.connect(["127.0.0.1:1", *(node.tcp for node in nodes)]).dataset("pets")
    assert pets[0] == data.content[0]
    nodes[0].kill()
    assert [bytes(view) for view in pets.get_batch(range(len(data)))] == data.content
    assert pets.labels.tolist() == data.labels


def test_whoever_connects_passes_over_a_node_that_hangs(cluster, data):
    nodes = cluster(2)
    pets = fodder.connect([node.tcp for node in nodes], timeout=600).dataset("pets")
    nodes[0].pause()
    assert pets[3] == data.content[3]
    again = fodder.connect([node.tcp for node in nodes], timeout=600).dataset("pets")
    assert again.labels.tolist() == data.labels


def test_a_slow_node_is_waited_for_though_there_is_another(serve, data):
    slow = serve(f"throttled:latency=4s:{data.folder}", "--name", "pets")
    other = serve(str(data.folder), "--name", "pets")
    pets = fodder.connect([slow.tcp, other.tcp]).dataset("pets")
    assert pets[0] == data.content[0]
    # It came from there: the other one has never seen it.
    sources = [fodder.connect(node.tcp).dataset("pets").get_batch([0]).sources[0] for node in (slow, other)]
    assert sources[0] != "origin" and sources[1] == "origin"


def test_nodes_of_which_none_answers_are_all_named():
    with pytest.raises(fodder.errors.Unavailable, match=r"(?s)127.0.0.1:1.*127.0.0.1:2"):
        fodder.connect("127.0.0.1:1,127.0.0.1:2")
