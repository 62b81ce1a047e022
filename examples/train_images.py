#!/usr/bin/env python3
"""Trains a small network on images through Fodder, and says where the time goes.

    python examples/train_images.py                                   # data made on the spot, behind slow storage
    python examples/train_images.py --data s3://bucket/imagenet/train --arch resnet50 --num-classes 1000 -b 256
    python examples/train_images.py --sbp --policy importance --mode reorder

Without --data it makes pictures of some classes, some of them hard to tell apart and some labelled wrong, and puts them
behind an origin with latency, of which --cache-ratio fits into the cache. Needs the package `fodder`, torch, torchvision and
Pillow.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from pathlib import Path

import fodder
import fodder.torch as ft
import numpy as np
import torch
import torchvision
from PIL import Image
from torch import nn


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="images in class directories: a path or a URI; made on the spot if not given")
    parser.add_argument("--arch", default="small", help="`small`, or a model of torchvision such as resnet18")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("-b", "--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("-p", "--print-freq", type=int, default=0, metavar="N", help="print every N batches")
    parser.add_argument("--num-classes", type=int, default=6)
    parser.add_argument("--sbp", action="store_true", help="sample by importance")
    parser.add_argument("--reuse-factor", type=int, default=3, help="every so many epochs have every image")
    parser.add_argument("--warm-up", type=int, default=1, help="epochs at the beginning that have every image")
    parser.add_argument("--policy", default="minio", help="what the cache keeps: minio, lru, importance, plan …")
    parser.add_argument("--mode", default="strict", choices=["strict", "reorder", "approx"])
    parser.add_argument("--cache-ratio", type=float, default=0.4, help="share of the data that fits into the cache")
    parser.add_argument("--latency", default="10ms", help="of the origin that is made on the spot")
    parser.add_argument("--images", type=int, default=600, help="how many to make")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def make_data(folder: Path, args: argparse.Namespace) -> None:
    """Pictures of a colour a class. Classes of odd number are noisy, and one picture in twenty is in the wrong place."""
    draw = np.random.default_rng(args.seed)
    for number in range(args.images):
        label = number % args.num_classes
        spread = 120 if label % 2 else 30
        colour = np.array([(label * 97 + channel * 61) % 200 for channel in range(3)])
        pixels = (colour + draw.integers(-spread, spread, (160, 160, 3))).clip(0, 255).astype(np.uint8)
        shown = int(draw.integers(args.num_classes)) if draw.random() < 0.05 else label
        place = folder / f"class{shown:03}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{number:06}.png", compress_level=1)


def model_of(args: argparse.Namespace) -> nn.Module:
    if args.arch != "small":
        return torchvision.models.get_model(args.arch, num_classes=args.num_classes)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(256, args.num_classes),
    )


def main() -> None:
    args = arguments()
    torch.manual_seed(args.seed)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fodder-example-")))
        origin = args.data
        if origin is None:
            make_data(folder / "images", args)
            origin = f"throttled:latency={args.latency}:{folder / 'images'}"
        # How much data there is says the node; the cache is made for a share of it.
        dataset = fodder.open(
            origin, cache_dir=folder / "cache", cache_size=cache_size(origin, args, folder), policy=args.policy
        )
        train(dataset, args)


def cache_size(origin: str, args: argparse.Namespace, folder: Path) -> str:
    files = folder / "images"
    if not files.is_dir():
        return "1GiB"
    total = sum(4096 * -(-file.stat().st_size // 4096) for file in files.rglob("*.png"))
    # The least that a node takes is 16 MiB.
    return f"{max(int(total * args.cache_ratio), 16 << 20)}B"


def train(source: fodder.Dataset, args: argparse.Namespace) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size = 32 if args.arch == "small" else 224
    steps = torchvision.transforms
    dataset = ft.ImageFolder(source, steps.Compose([steps.Resize((size, size)), steps.ToTensor()]))
    sampler = None
    if args.sbp:
        sampler = ft.ImportanceSampler(
            dataset, seed=args.seed, warm_up=args.warm_up, reuse_factor=args.reuse_factor, publish=False
        )
    loader = ft.Loader(
        dataset,
        args.batch_size,
        sampler=sampler,
        seed=args.seed,
        mode=args.mode,
        num_workers=args.workers,
        persistent_workers=args.workers > 0,
        pin_memory=device.type == "cuda",
    )
    model = model_of(args).to(device)
    criterion = nn.CrossEntropyLoss(reduction="none")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    print(f"{len(dataset)} images, {len(dataset.classes)} classes, {args.policy}, {args.mode}, on {device}")
    print(
        f"{'epoch':>5} {'images':>7} {'seconds':>8} {'waiting':>8} {'hits':>6} {'ahead':>6}"
        f" {'from origin':>12} {'accuracy':>9}  audit"
    )
    before = source.stats()
    for epoch in range(args.epochs):
        begun, right, seen = time.perf_counter(), 0, 0
        for number, (images, targets) in enumerate(loader):
            images, targets = images.to(device), targets.to(device)
            scores = model(images)
            losses = criterion(scores, targets)
            optimizer.zero_grad()
            (losses * loader.weights.to(device)).mean().backward()
            optimizer.step()
            loader.report(losses=losses)
            right += int((scores.argmax(1) == targets).sum())
            seen += len(targets)
            if args.print_freq and number % args.print_freq == 0:
                print(f"      batch {number}: loss {losses.mean():.3f}")
        took = time.perf_counter() - begun
        audit, now = loader.audits[-1], source.stats()
        # What was fetched ahead of the loop is no plain hit.
        hits = sum(loader.sources[kind] for kind in ("mem", "ssd", "hdd")) / max(seen, 1)
        ahead = loader.sources["prefetched"] / max(seen, 1)
        fetched = (now.bytes_from_origin - before.bytes_from_origin) / 1e6
        print(
            f"{epoch:5} {seen:7} {took:8.2f} {loader.waited_s / took:8.0%} {hits:6.0%} {ahead:6.0%}"
            f" {fetched:9.1f} MB {right / max(seen, 1):9.1%}  {'exact' if audit.exact else audit}"
        )
        before = now
    loader.close()


if __name__ == "__main__":
    main()
