"""The programs in examples/, run as a user would, with little data."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree
from collections import Counter
from pathlib import Path

import pytest
from conftest import is_running, members_of, wait_for

torch = pytest.importorskip("torch", reason="torch is not installed")

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

import compare  # noqa: E402
import pictures  # noqa: E402
import train_images  # noqa: E402
from fodder.torch._told import Told  # noqa: E402
from training import Epoch, end_node  # noqa: E402

LITTLE = ["--images", "80", "--latency", "1", "--parallel", "4", "-b", "16", "--workers", "1"]


@pytest.fixture
def example(monkeypatch, capsys):
    """Runs train_images.py: what it printed, line by line."""

    def run(*args: str) -> list[str]:
        # It is set for the node; what this leaves behind is undone.
        monkeypatch.setenv("FODDER_CONFIG", "")
        monkeypatch.delenv("FODDER_CONFIG")
        monkeypatch.setattr(sys, "argv", ["train_images.py", *args])
        train_images.main()
        return capsys.readouterr().out.splitlines()

    return run


def epochs_of(lines):
    """The words of each epoch's line."""
    return [line.split() for line in lines if line.strip()[:1].isdigit() and "MB" in line]


@pytest.mark.parametrize("mode", ["strict", "reorder", "approx"])
def test_an_epoch_in_each_mode_is_told_in_a_line(example, mode):
    first, second = epochs_of(example(*LITTLE, "--epochs", "2", "--mode", mode, "-p", "2"))
    # epoch, images, seconds, waiting, cached, ahead, waited, stand-in, origin MB, train, validation, audit
    assert [first[0], second[0]] == ["0", "1"]
    assert first[1] == second[1] == "80" and float(first[2]) > 0
    assert float(first[8]) >= 0.3, "the first epoch fetches all of 80 pictures"
    kinds = [int(word.rstrip("%")) for word in second[4:8]]
    assert 98 <= sum(kinds) <= 102 and kinds[0] > 0
    assert second[10].endswith("%") and second[11].endswith("%")
    assert mode == "approx" or first[12] == second[12] == "exact"


def test_sampling_by_importance_trains_on_less(example):
    told = epochs_of(example(*LITTLE, "--images", "200", "--epochs", "4", "--sbp", "--policy", "importance"))
    counts = [int(words[1]) for words in told]
    assert counts[0] == counts[3] == 200, "the warm-up, and every third epoch, have everything"
    assert 40 < counts[1] < 200 and 40 < counts[2] < 200
    assert all(words[12] == "exact" for words in told)


def test_without_a_cache_every_epoch_fetches_everything(example):
    told = epochs_of(example(*LITTLE, "--epochs", "3", "--cache-ratio", "0", "--workers", "0"))
    assert [words[4] for words in told] == ["0%", "0%", "0%"]
    assert sum(float(words[8]) for words in told) > 0.85


def test_ones_own_images_are_trained_on(example, tmp_path):
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    pytest.importorskip("PIL", reason="Pillow is not installed")
    from PIL import Image

    for number in range(12):
        place = tmp_path / "data" / f"class{number % 3}"
        place.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (number * 20, 0, 0)).save(place / f"{number}.jpg")
    own = ["--data", str(tmp_path / "data"), "--val", str(tmp_path / "data"), "--arch", "small"]
    (told,) = epochs_of(example(*own, "-b", "4", "--epochs", "1", "--workers", "0"))
    assert told[1] == "12" and told[12] == "exact" and told[11].endswith("%")
    with pytest.raises(SystemExit, match="3 classes"):
        example(*own, "--num-classes", "2")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--epochs", "0"], "'0' is no whole number of at least 1"),
        (["--cache-ratio", "1.5"], "'1.5' is no share between 0 and 1"),
        (["--policy", "best"], "invalid choice: 'best'"),
        (["--mode", "loose"], "invalid choice: 'loose'"),
        (["--val", "x"], "go with --data"),
        (["--compare", "--data", "x"], "makes its own data"),
    ],
)
def test_a_bad_flag_is_answered_with_a_sentence(example, capsys, flags, said):
    with pytest.raises(SystemExit) as ended:
        example(*flags)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_what_cannot_be_run_is_answered_with_a_sentence(example, tmp_path):
    with pytest.raises(SystemExit, match=r"train_images: .*needs --epochs 2"):
        example(*LITTLE, "--compare", "--epochs", "1")
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    with pytest.raises(SystemExit, match=r"train_images: .*nowhere"):
        example("--data", str(tmp_path / "nowhere"))
    with pytest.raises(SystemExit, match=r"train_images: .*resnet0"):
        example(*LITTLE, "--arch", "resnet0")


def test_the_node_receives_the_embedding_of_every_image_with_the_policy_semantic(example, monkeypatch):
    received = []

    def embedded(self, ids, rows):
        packed = ids.tobytes(), rows.tobytes()
        taken = self._seat.node.report_embeddings(self._dataset, self._seat.job, rows.shape[1], *packed)
        received.append((taken, rows.shape))

    monkeypatch.setattr(Told, "embedded", embedded)
    told = epochs_of(example(*LITTLE, "--epochs", "2", "--policy", "semantic", "--mode", "approx"))
    assert [epoch[0] for epoch in told] == ["0", "1"]
    assert sum(taken for taken, _ in received) == 160, "two epochs of 80 images"
    assert all(shape == (taken, 32) for taken, shape in received)
    received.clear()
    example(*LITTLE, "--epochs", "1", "--policy", "lru")
    assert not received, "other policies have no use for them"


def test_ways_to_cache_are_compared_and_drawn(example, tmp_path):
    drawn = tmp_path / "comparison.svg"
    lines = example(*LITTLE, "--compare", "--epochs", "2", "--seeds", "1", "--draw", str(drawn))
    text = "\n".join(lines)
    for way in ("no cache", "lru", "minio", "importance", "semantic", "plan", "reorder, 2 jobs"):
        assert any(line.startswith(way) for line in lines), text
    assert text.count("Time: an epoch with") == 2 and "fewer than 3 seeds" in text
    assert "same accuracy to the last digit" in text, text
    picture = xml.etree.ElementTree.parse(drawn).getroot()
    assert picture.tag.endswith("svg") and len(list(picture)) > 30


def outcome(way, seconds=1.0, requests=100, accuracies=(0.9,)):
    made = compare.Outcome(way, cost_s=0.02, parallel=2)
    for accuracy in accuracies:
        epoch = Epoch(1, 100, seconds, 0.5, Counter(), 0.9, True, accuracy, requests, 1000)
        made.runs.append([epoch, epoch])
    return made


def test_the_verdicts_of_a_comparison_go_either_way():
    def told(important, minio_s):
        plain = [0.90, 0.91, 0.92]
        ways = {way.name: outcome(way, accuracies=plain) for way in compare.WAYS}
        ways["importance"] = outcome(compare.IMPORTANCE, accuracies=important)
        ways["minio"] = outcome(compare.WAYS[2], seconds=minio_s, requests=60, accuracies=plain)
        return compare.times(list(ways.values()))[0], compare.accuracies(list(ways.values()))[1]

    time, accuracy = told([0.91, 0.92, 0.90], minio_s=0.65)
    assert "takes 0.65 of" in time and "predicted 0.60" in time and ", within 15 %" in time
    assert "within noise of" in accuracy
    time, accuracy = told([0.80, 0.81, 0.82], minio_s=0.75)
    assert "NOT within 15 %" in time
    assert "WORSE than" in accuracy and "-10.0 points" in accuracy


def test_pictures_are_of_different_difficulty_and_some_are_in_the_wrong_place(tmp_path):
    pictures.make(tmp_path, 400, 4, seed=1)
    images, labels = pictures.read(tmp_path)
    assert images.shape == (400, 3, pictures.SIDE, pictures.SIDE)
    assert all(file.stat().st_size < 4096 for file in tmp_path.glob("*/*"))
    wrong = sum(int(file.stem) % 4 != int(file.parent.name[5:]) for file in tmp_path.glob("*/*"))
    assert 5 <= wrong <= 35
    spread = [float(images[labels == label].std()) for label in range(4)]
    assert min(spread[0], spread[2]) > max(spread[1], spread[3]), "stripes of easy classes are stronger"


def torchrun(ranks, *args):
    """Runs train_ddp.py on so many ranks: what it printed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    done = subprocess.run(
        [*command, str(EXAMPLES / "train_ddp.py"), *args], capture_output=True, text=True, timeout=300, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_ranks_save_in_the_middle_of_an_epoch_and_one_goes_on(tmp_path):
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_gloo_available()):
        pytest.skip("this torch has no gloo")
    small = ["--work", str(tmp_path / "work"), "--images", "101", "-b", "16", "--epochs", "2", "--workers", "0"]
    try:
        # 101 images are 51 for each rank and a pad: 7 batches of 8, then 3 of the second epoch.
        told = torchrun(2, *small, "--stop-after", "10")
        assert "epoch 0: 102 images, each exactly once (1 pads)" in told
        assert "saved in epoch 1, after 48 of its images" in told
        told = torchrun(1, *small)
        assert "epoch 1: 48 images before the checkpoint and 53 after it, each exactly once" in told
        assert "validation accuracy" in told
    finally:
        end_node(tmp_path / "work" / "cache")


def test_without_torchrun_it_says_how_to_start_it():
    environment = {key: value for key, value in os.environ.items() if key != "RANK"}
    command = [sys.executable, str(EXAMPLES / "train_ddp.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 1 and "start it with torchrun" in done.stderr


def test_nothing_is_left_behind(example, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    example(*LITTLE, "--epochs", "1")
    wait_for("the directory to be empty", lambda: not list(tmp_path.glob("fodder-example-*")))


@pytest.mark.parametrize("compared", [False, True], ids=["one run", "two jobs"])
@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_an_end_in_the_middle_of_an_epoch_leaves_nothing_behind(tmp_path, told, compared):
    flags = ["--images", "400", "--latency", "100", "--parallel", "2", "-p", "1"]
    code = [
        "import compare, runpy, signal, sys",
        # Whoever runs the tests in the background has it ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)",
        # What trains two jobs is the last of the ways.
        "compare.WAYS = compare.WAYS[-1:]",
        f"sys.argv[0] = {str(EXAMPLES / 'train_images.py')!r}",
        "runpy.run_path(sys.argv[0], run_name='__main__')",
    ]
    started = subprocess.Popen(
        [sys.executable, "-c", "\n".join(code), *flags, *(["--compare"] if compared else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": f"{EXAMPLES}:{os.environ.get('PYTHONPATH', '')}"},
    )
    before = set(os.listdir("/dev/shm"))
    wait_for("it to train", lambda: started.stdout.readline().strip().startswith("a miss" if compared else "batch 2"))
    lock = next(tmp_path.glob("fodder-example-*")) / "cache" / "LOCK"
    # Two jobs have two workers each.
    wait_for("all of it", lambda: len(members_of(started.pid)) >= (7 if compared else 3) and lock.exists())
    node, members = json.loads(lock.read_text())["pid"], members_of(started.pid)
    # A terminal tells the whole group, a scheduler one process.
    os.killpg(started.pid, told) if told == signal.SIGINT else os.kill(started.pid, told)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 128 + told, said
    wait_for("everyone to end", lambda: not any(is_running(pid) for pid in [node, *members]))
    wait_for("what was made for it to be removed", lambda: not list(tmp_path.glob("fodder-*")))
    assert not [name for name in set(os.listdir("/dev/shm")) - before if name.startswith("torch")]
