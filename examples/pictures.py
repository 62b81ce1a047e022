"""Pictures to train on, made on the spot: stripes under noise, which differ in direction from class to class.

Classes of even number are easy: strong stripes. Those of odd number are hard: faint ones, at a small angle to the next
class. Of the pictures to train on, one in twenty lies in the directory of another class, as in data that people have
labelled. A picture is a PPM of less than 4 KiB, one block of a disk, and is read with neither Pillow nor torchvision.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

SIDE = 36
WRONG_LABELS = 0.05
_HEADER = f"P6\n{SIDE} {SIDE}\n255\n".encode()


def make(folder: Path, count: int, classes: int, seed: int, wrong: float = WRONG_LABELS) -> None:
    """Writes pictures into class directories."""
    draw = np.random.default_rng(seed)
    for label in range(classes):
        (folder / f"class{label:03}").mkdir(parents=True, exist_ok=True)
    for number in range(count):
        label = number % classes
        shown = int(draw.integers(classes)) if draw.random() < wrong else label
        path = folder / f"class{shown:03}" / f"{number:06}.ppm"
        path.write_bytes(_HEADER + _pixels(label, classes, draw).tobytes())


def _pixels(label: int, classes: int, draw: np.random.Generator) -> np.ndarray[Any, Any]:
    hard = label % 2
    angle = np.pi * (label + 0.25 * hard) / classes + draw.normal(0, 0.06)
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    along = rows * np.sin(angle) + columns * np.cos(angle)
    waves = np.sin(along * draw.uniform(0.7, 1.1) + draw.uniform(0, 2 * np.pi))
    colour = draw.uniform(0.4, 1.0, 3) * (14 if hard else 40)
    noise = draw.normal(0, 60, (SIDE, SIDE, 3))
    return (128 + waves[:, :, None] * colour + noise).clip(0, 255).astype(np.uint8)


def decode(content: bytes | memoryview) -> torch.Tensor:
    """The pixels of a picture made here."""
    pixels = np.frombuffer(content, np.uint8, offset=len(_HEADER)).reshape(SIDE, SIDE, 3)
    return torch.from_numpy(pixels.transpose(2, 0, 1).astype(np.float32) / 255 - 0.5)


def read(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """All pictures of a directory and their labels, in memory."""
    files = sorted(folder.glob("*/*.ppm"))
    classes = sorted({file.parent.name for file in files})
    labels = torch.tensor([classes.index(file.parent.name) for file in files])
    return torch.stack([decode(file.read_bytes()) for file in files]), labels
