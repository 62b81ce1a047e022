"""Datasets that know nothing of Fodder, over a mounted directory."""

from __future__ import annotations

import os
import subprocess
import threading

import fodder
import pytest
from fodder import _program

torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")

from torch.utils.data import DataLoader  # noqa: E402


@pytest.fixture
def pictures(tmp_path):
    """Real images in class directories, of which one is a link to another."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    folder = tmp_path / "pictures"
    for label, name in enumerate(["ant", "bee", "cat"]):
        (folder / name).mkdir(parents=True)
        for number in range(30):
            image.new("RGB", (64, 48), (label * 90, number * 8, 7)).save(folder / name / f"{number:02}.png")
    (folder / "zoo").symlink_to("cat")
    return folder


def relative(folder, samples):
    return [(os.path.relpath(path, folder), label) for path, label in samples]


@pytest.mark.parametrize("flags", [(), ("--no-passthrough",), ("--immutable",)], ids=["plain", "refused", "immutable"])
def test_torchvisions_imagefolder_reads_a_mount_as_it_reads_the_origin(serve, mount, pictures, flags):
    node = serve(str(pictures), "--name", "pictures", "--cache-size", "16MiB")
    mounted = mount(node, "pictures", *flags)
    transform = torchvision.transforms.ToTensor()
    here = torchvision.datasets.ImageFolder(str(mounted), transform=transform)
    there = torchvision.datasets.ImageFolder(str(pictures), transform=transform)
    assert (here.classes, here.targets) == (there.classes, there.targets) and here.classes[-1] == "zoo"
    assert relative(mounted, here.samples) == relative(pictures, there.samples)
    assert os.path.islink(mounted / "zoo")

    dataset, done = fodder.connect(node.address).dataset("pictures"), threading.Event()

    def evict():
        while not done.is_set():
            command = [_program.find(), "evict", "pictures", "--addr", node.tcp]
            subprocess.run(command, check=True, capture_output=True, timeout=60)

    disturber = threading.Thread(target=evict)
    disturber.start()
    try:
        # Spawned, because this process has threads; kept, because starting them takes longest.
        ways = {"num_workers": 2, "multiprocessing_context": "spawn", "persistent_workers": True}
        loader = DataLoader(here, batch_size=16, **ways)
        for _ in range(3):
            for (images, labels), (expected, targets) in zip(loader, DataLoader(there, batch_size=16), strict=True):
                assert images.equal(expected) and labels.equal(targets)
    finally:
        done.set()
        disturber.join()
    assert len(dataset) == len(there)
