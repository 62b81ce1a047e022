"""A real node for the tests, and data for it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import fodder
import pytest
from fodder import _program

pytest_plugins = ["promises"]

# Longer than anything here takes, also on a busy machine.
DEADLINE_S = 60


def pytest_collection_modifyitems(items):
    """Leaves JAX and TensorFlow for the end: they start threads, and after that a fork may hang."""
    items.sort(key=lambda item: item.path.name == "test_frameworks.py")


def wait_for(what, condition):
    """Polls until a condition holds."""
    end = time.monotonic() + DEADLINE_S
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited too long for {what}"
        time.sleep(0.02)


def is_running(pid):
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def members_of(group):
    """The processes of a process group."""
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _group_of(int(pid)) == group]


def _group_of(pid):
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


class Data:
    """Files in class directories: `paths` and `content` in item order."""

    def __init__(self, folder: Path, classes: int = 3, each: int = 12, size: int = 3000) -> None:
        draw = random.Random(7)
        self.folder = folder
        self.paths, self.content, self.labels = [], [], []
        for label in range(classes):
            (folder / f"class{label}").mkdir(parents=True)
            for number in range(each):
                path = f"class{label}/{number:04}.png"
                content = draw.randbytes(size + draw.randrange(size))
                (folder / path).write_bytes(content)
                self.paths.append(path)
                self.content.append(content)
                self.labels.append(label)

    def __len__(self) -> int:
        return len(self.paths)


class ServedNode:
    """`fodder serve` on free ports, ended with its test."""

    def __init__(self, cache: Path, *args: str) -> None:
        self.cache, self.args, self.process = cache, args, None
        self.start()

    def start(self, *extra: str) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FODDER_")}
        command = [_program.find(), "serve", *self.args, "--cache-dir", str(self.cache), "--rest", "127.0.0.1:0"]
        command += [*extra] if "--grpc" in extra else ["--grpc", "127.0.0.1:0", *extra]
        if "--cache-size" not in self.args:
            command += ["--cache-size", "64MiB"]
        self.log = self.cache / "test.log"
        self.cache.mkdir(mode=0o700, exist_ok=True)
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log.open("w"), text=True, env=environment
        )
        self.lines = {}
        for line in self.process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "ready":
                return
            self.lines[word] = rest
        raise AssertionError(f"the node did not start: {self.log.read_text()}")

    @property
    def address(self) -> str:
        return "unix:" + self.lines["socket"]

    @property
    def tcp(self) -> str:
        return self.lines["grpc"]

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Data:
    return Data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def by_content(data):
    """Which item bytes are, by the first of them."""
    found = {content[:8]: index for index, content in enumerate(data.content)}
    assert len(found) == len(data)
    return found


@pytest.fixture(scope="session")
def node(data, tmp_path_factory):
    node = ServedNode(tmp_path_factory.mktemp("node") / "cache", str(data.folder), "--name", "pets")
    yield node
    node.stop()


@pytest.fixture
def pets(node) -> fodder.Dataset:
    return fodder.connect(node.address).dataset("pets")


@pytest.fixture
def serve(tmp_path):
    """Starts a node of one's own."""
    nodes = []

    def start(*args: str) -> ServedNode:
        nodes.append(ServedNode(tmp_path / f"cache{len(nodes)}", *args))
        return nodes[-1]

    yield start
    for node in nodes:
        node.stop()


@pytest.fixture
def mount(tmp_path):
    """Mounts a dataset of a node."""
    if not os.path.exists("/dev/fuse"):
        pytest.skip("there is no /dev/fuse")
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    point = tmp_path / "mounted"
    point.mkdir()

    def start(node, dataset, *flags):
        command = [_program.find(), "mount", dataset, str(point), "--cache-dir", str(node.cache), *flags]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return point

    yield start
    if os.path.ismount(point):
        subprocess.run([_program.find(), "unmount", "--lazy", str(point)], check=True, capture_output=True, timeout=60)


@pytest.fixture
def cluster(serve, data, tmp_path):
    """Starts nodes that are one cluster, and waits until they know each other."""

    def start(count: int) -> list[ServedNode]:
        token = tmp_path / "token"
        token.write_text("a word that all nodes of this cluster know")
        nodes: list[ServedNode] = []
        for _ in range(count):
            # The first names nobody.
            join = ",".join(node.tcp for node in nodes) or "127.0.0.1:1"
            nodes.append(serve(str(data.folder), "--name", "pets", "--join", join, "--token-file", str(token)))
        for node in nodes:
            wait_for("all nodes to see each other", lambda node=node: serving(node) == count)
        return nodes

    return start


def serving(node: ServedNode) -> int:
    command = [_program.find(), "cluster", "status", "--json", "--addr", node.tcp]
    status = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return sum(member["state"] == "serving" for member in status["members"])
