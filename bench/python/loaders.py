"""The Python side of the scenario `python`: loaders that take turns, told what to do line by line.

    loaders.py draw DIR COUNT                                             JPEG pictures in ten classes
    loaders.py serve FILES SOCKET PICTURES SOCKET SOCKET                  obeys lines until its input ends

The sockets are of nodes that have FILES, have PICTURES, and have the same files as FILES far away.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np

BATCH, WORKERS = 64, 2

# torch would rather have bytes that may be written.
warnings.filterwarnings("ignore", message="The given buffer is not writable")


def draw(folder: str, count: str) -> None:
    from PIL import Image

    random = np.random.default_rng(1)
    for number in range(int(count)):
        place = Path(folder) / f"class{number % 10}"
        place.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(random.integers(0, 256, (15, 20, 3), np.uint8)).resize((500, 375), Image.BICUBIC)
        grain = random.integers(-20, 21, (375, 500, 3))
        picture = Image.fromarray((np.asarray(coarse) + grain).clip(0, 255).astype(np.uint8))
        picture.save(place / f"{number:06}.jpg", quality=85)


def as_tensor(content):
    """What a file that needs no decoding becomes, from either side."""
    import torch

    return torch.frombuffer(content, dtype=torch.uint8)


def read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def as_it_is(content):
    return content


class Contest:
    def __init__(self, files: str, near: str, pictures: str, drawn: str, far: str) -> None:
        import fodder
        import fodder.torch
        import torch
        import torchvision
        from torchvision import transforms

        torch.set_num_threads(1)
        self.torch, self.fodder = torch, fodder
        self.near, self.far = (fodder.connect(socket).dataset("bench") for socket in (near, far))
        self.paths = [str(Path(files) / name) for name in self.near.names]
        resized = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.PILToTensor()])
        ours, theirs = fodder.torch.ImageFolder, torchvision.datasets.ImageFolder
        drawn_here = fodder.connect(drawn).dataset("bench")
        self.loaders = {
            ("files", "fodder"): self.loader(ours(self.near, as_tensor, loader=as_it_is)),
            ("files", "torchvision"): self.loader(theirs(files, as_tensor, loader=read_file)),
            ("decoded", "fodder"): self.loader(ours(drawn_here, resized)),
            ("decoded", "torchvision"): self.loader(theirs(pictures, resized)),
        }

    def loader(self, dataset):
        return self.torch.utils.data.DataLoader(
            dataset, batch_size=BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True
        )

    def epoch(self, what: str, who: str) -> int:
        """One pass: how many samples came."""
        return sum(len(labels) for _, labels in self.loaders[what, who])

    def batches(self, count: str, seed: str) -> int:
        """Random batches of 256 by id: bytes."""
        order = np.random.default_rng(int(seed)).permutation(len(self.near))
        return sum(
            self.near.get_batch(np.take(order, range(n * 256, n * 256 + 256), mode="wrap")).nbytes
            for n in range(int(count))
        )

    def one(self, count: str) -> float:
        """Microseconds of one item, the median."""
        return self.each(count, lambda index: self.near[index], computing=False)

    def spaced(self, count: str) -> float:
        """The same in a loop that computes between items, as one that decodes them does."""
        return self.each(count, lambda index: self.near[index], computing=True)

    def plain(self, count: str, computing: str) -> float:
        """Microseconds of `open().read()` of the same files, the median."""
        return self.each(count, lambda index: read_file(self.paths[index]), computing == "computing")

    def each(self, count: str, read, computing: bool) -> float:
        order, taken = np.random.default_rng(3).integers(0, len(self.near), int(count)).tolist(), []
        numbers = np.random.default_rng(0).random(50_000)
        for index in order:
            if computing:
                np.sort(numbers)
            begun = time.perf_counter()
            read(index)
            taken.append(time.perf_counter() - begun)
        return float(np.median(taken)) * 1e6

    def ahead(self, how: str, step_ms: str, seed: str) -> float:
        """An epoch from an empty cache: percent of the time that the loop waits for data, from the second batch on.

        A step is a sleep, as the thread of a loop sees it when an accelerator computes. The last `next`, which finds no
        more batches and ends the workers, is not waiting for data: time is measured until the loop asks for it.
        """
        self.far.evict()
        dataset = self.fodder.torch.ItemDataset(self.far, as_tensor)
        if how == "plan":
            loader = self.fodder.torch.Loader(dataset, BATCH, seed=int(seed), num_workers=WORKERS)
        else:
            shuffled = self.torch.Generator().manual_seed(int(seed))
            loader = self.torch.utils.data.DataLoader(
                dataset, BATCH, shuffle=True, num_workers=WORKERS, generator=shuffled
            )
        waited, batches = 0.0, iter(loader)
        next(batches)
        begun = time.perf_counter()
        while True:
            time.sleep(int(step_ms) / 1e3)
            asked = time.perf_counter()
            batch = next(batches, None)
            if batch is None:
                return 100 * waited / (asked - begun)
            waited += time.perf_counter() - asked


def main() -> None:
    if sys.argv[1] == "draw":
        draw(*sys.argv[2:])
        return
    contest = Contest(*sys.argv[2:])
    print("ready", flush=True)
    for line in sys.stdin:
        command, *words = line.split()
        print(getattr(contest, command)(*words), flush=True)


if __name__ == "__main__":
    main()
