#!/usr/bin/env python3
"""Trains on several ranks through one cache, saves in the middle of an epoch, and goes on from there on another number.

    torchrun --standalone --nproc-per-node 2 examples/train_ddp.py --stop-after 20    # saved after 20 batches
    torchrun --standalone --nproc-per-node 1 examples/train_ddp.py                    # one rank goes on with the rest

All ranks of a host share one node, which the first of them starts. The pictures, the cache and the checkpoint are kept
in --work; remove it to begin anew. After each epoch it says whether every image was trained on exactly once, by all
ranks together, before and after the checkpoint.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import fodder.torch as ft
import pictures
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from training import network, validate, whole

CLASSES = 10


def main() -> None:
    args = arguments()
    if "RANK" not in os.environ:
        sys.exit("train_ddp: start it with torchrun --standalone --nproc-per-node 2 examples/train_ddp.py")
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    torch.set_num_threads(1)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    try:
        train(args, Path(args.work).absolute(), device)
    finally:
        dist.destroy_process_group()


def train(args: argparse.Namespace, work: Path, device: torch.device) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0 and not (work / "val").is_dir():
        pictures.make(work / "train", args.images, CLASSES, seed=1)
        pictures.make(work / "val", args.images // 4, CLASSES, seed=2, wrong=0)
    dist.barrier()
    origin = f"throttled:latency=10ms:{work / 'train'}"
    dataset = ft.ImageFolder(origin, loader=pictures.decode, cache_dir=work / "cache", cache_size="40%")
    # The ranks share a batch, so that its size does not depend on how many they are.
    loader = ft.Loader(dataset, max(1, args.batch_size // world), seed=0, num_workers=args.workers)
    torch.manual_seed(0)
    model = DistributedDataParallel(network("small", CLASSES).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    before = resume(work / "checkpoint.pt", loader, model, optimizer)
    criterion = nn.CrossEntropyLoss()
    steps = 0
    while loader.epoch < args.epochs:
        epoch, mine = loader.epoch, []
        for images, targets in loader:
            loss = criterion(model(images.to(device)), targets.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mine += loader.ids
            steps += 1
            if steps == args.stop_after:
                save(work / "checkpoint.pt", loader, model, optimizer, before + everyones(mine))
                loader.close()
                return
        told = everyones(mine)
        if rank == 0:
            print(account(epoch, len(dataset), before, told, world), flush=True)
        before = Counter()
    loader.close()
    if rank == 0:
        (work / "checkpoint.pt").unlink(missing_ok=True)
        print(f"validation accuracy {validate(model.module, [pictures.read(work / 'val')], device):.1%}")


def save(
    path: Path, loader: ft.Loader, model: nn.Module, optimizer: torch.optim.Optimizer, taken: Counter[int]
) -> None:
    """One rank writes for all: in strict mode each knows how far the others are."""
    if dist.get_rank() == 0:
        parts = {"model": model, "optimizer": optimizer, "loader": loader}
        torch.save({**{name: part.state_dict() for name, part in parts.items()}, "taken": taken}, path)
        print(f"saved in epoch {loader.epoch}, after {sum(taken.values())} of its images")
    dist.barrier()


def resume(path: Path, loader: ft.Loader, model: nn.Module, optimizer: torch.optim.Optimizer) -> Counter[int]:
    """Goes on where a checkpoint was made, if there is one: the images that the epoch had until then."""
    if not path.exists():
        return Counter()
    state: dict[str, Any] = torch.load(path, weights_only=False)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    loader.load_state_dict(state["loader"])
    return Counter(state["taken"])


def everyones(mine: list[int]) -> Counter[int]:
    """The images of all ranks."""
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, mine)
    return Counter(image for part in parts for image in part)


def account(epoch: int, images: int, before: Counter[int], now: Counter[int], world: int) -> str:
    """Whether an epoch had every image once. Where the ranks' shares are uneven, some images come again to pad them."""
    both = before + now
    missing, again = images - len(both), sum(both.values()) - len(both)
    parts = f"{sum(now.values())} images"
    if before:
        parts = f"{sum(before.values())} images before the checkpoint and {sum(now.values())} after it"
    verdict = "each exactly once" if not missing and again < world else f"{missing} missing, {again} twice"
    return f"epoch {epoch}: {parts}, {verdict}{f' ({again} pads)' if again else ''}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--work", default="fodder-ddp", metavar="DIR", help="where pictures, cache and checkpoint are kept")
    add("--epochs", type=whole(1), default=3)
    add("-b", "--batch-size", type=whole(1), default=64, help="of all ranks together")
    add("--workers", type=whole(0), default=1, help="of each rank")
    add("--images", type=whole(40), default=2000, help="how many to make")
    add("--stop-after", type=whole(1), metavar="N", help="save after so many batches, and end")
    return parser.parse_args()


if __name__ == "__main__":
    main()
