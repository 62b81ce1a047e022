"""One training run through Fodder: the loop that a script of one's own has too, and what is counted around it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import fodder.torch as ft
import torch
from torch import nn

Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]


@dataclass
class Data:
    """Where images are, and how they are read."""

    origin: str
    how: dict[str, Any]
    validation: Batches
    classes: int


@dataclass
class Epoch:
    """What an epoch came to."""

    number: int
    images: int
    seconds: float
    waited_s: float
    sources: Counter[str]
    train_accuracy: float
    exact: bool
    accuracy: float | None = None
    requests: int = 0
    bytes_from_origin: int = 0

    def share(self, *kinds: str) -> float:
        """Which part of the images came in one of these ways."""
        return sum(self.sources[kind] for kind in kinds) / max(self.images, 1)


def cache_size(args: argparse.Namespace) -> str:
    """How much of the data the cache may hold; with a ratio of 0 less than any image has."""
    return f"{max(args.cache_ratio, 1e-9) * 100:.9f}%"


def train(
    args: argparse.Namespace,
    data: Data,
    cache: Path,
    told: Callable[[str], object] = print,
    ready: Callable[[], object] = lambda: None,
) -> list[Epoch]:
    """One training run. Tells how each epoch went; `ready` is called when the first is about to begin."""
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    how = {"cache_dir": args.cache_dir or str(cache), "cache_size": cache_size(args), "policy": args.policy}
    dataset = ft.ImageFolder(data.origin, **data.how, **how)
    source, sampler = dataset.dataset, None
    if args.sbp:
        sampler = ft.ImportanceSampler(
            dataset, seed=args.seed, warm_up=args.warm_up, reuse_factor=args.reuse_factor, publish=False
        )
    loader = ft.Loader(
        dataset,
        args.batch_size,
        sampler=sampler,
        seed=args.seed,
        mode=ft.Reorder(max(1, int(args.window * len(dataset)))) if args.mode == "reorder" else args.mode,
        num_workers=args.workers,
        persistent_workers=args.workers > 0,
        pin_memory=device.type == "cuda",
    )
    model = network(args.arch, data.classes).to(device)
    if args.arch == "small":
        # Threads would wait for each other longer than they compute.
        torch.set_num_threads(1)
    features = Features(model) if args.policy == "semantic" else None
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    told(f"{len(dataset)} images, {len(dataset.classes)} classes, {args.arch} on {device}; {args.policy}, {args.mode}")
    told(HEADER)
    epochs: list[Epoch] = []
    # Workers end before the node does, also when somebody presses Ctrl-C: they would wait for it to come back.
    with contextlib.closing(loader):
        ready()
        before = source.stats()
        for number in range(args.epochs):
            epochs.append(one_epoch(args, loader, model, optimizer, device, told, features))
            schedule.step()
            # What is fetched between two epochs is fetched for the second one.
            after = source.stats()
            epochs[-1].requests = after.origin_requests - before.origin_requests
            epochs[-1].bytes_from_origin = after.bytes_from_origin - before.bytes_from_origin
            before = after
            if not args.compare or number == args.epochs - 1:
                epochs[-1].accuracy = validate(model, data.validation, device)
            told(row(epochs[-1]))
    return epochs


def one_epoch(
    args: argparse.Namespace,
    loader: ft.Loader,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    told: Callable[[str], object],
    features: Features | None = None,
) -> Epoch:
    """A pass over what is planned. This is the loop that a script of one's own has too."""
    criterion = nn.CrossEntropyLoss(reduction="none")
    begun, right, seen = time.perf_counter(), 0, 0
    model.train()
    for number, (images, targets) in enumerate(loader):
        images, targets = images.to(device, non_blocking=True), targets.to(device, non_blocking=True)
        scores = model(images)
        losses = criterion(scores, targets)
        optimizer.zero_grad()
        # What is sampled more often counts less: the mean stays that over all images.
        (losses * loader.weights.to(device)).mean().backward()
        optimizer.step()
        # The policy `semantic` finds out from the features which images are alike.
        loader.report(losses=losses, embeddings=None if features is None else features.last)
        right += int((scores.argmax(1) == targets).sum())
        seen += len(targets)
        if args.print_freq and number % args.print_freq == 0:
            waiting = loader.waited_s / max(loader.elapsed_s, 1e-9)
            told(f"      batch {number} of {len(loader)}: loss {losses.mean():.3f}, {waiting:.0%} waiting for data")
    seconds, audit = time.perf_counter() - begun, loader.audits[-1]
    return Epoch(
        number=audit.epoch,
        images=seen,
        seconds=seconds,
        waited_s=loader.waited_s,
        sources=loader.sources,
        train_accuracy=right / max(seen, 1),
        exact=audit.exact,
    )


class Features:
    """The input of a model's last linear layer in the latest forward pass: an embedding of each image."""

    def __init__(self, model: nn.Module) -> None:
        linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
        if not linear:
            raise ValueError("the policy semantic needs embeddings: use a model with a linear layer")
        self.last: torch.Tensor | None = None
        linear[-1].register_forward_pre_hook(self._keep)

    def _keep(self, _: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        self.last = inputs[0].detach().flatten(1)


def validate(model: nn.Module, batches: Batches, device: torch.device) -> float | None:
    """The share of validation images that are told right; None if there are none."""
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for images, targets in batches:
            right += int((model(images.to(device)).argmax(1).cpu() == targets).sum())
            seen += len(targets)
    return right / seen if seen else None


HEADER = (
    "epoch  images  seconds  waiting   cached  ahead  waited  stand-in   from origin   train  validation  audit\n"
    "                                  ------ hits by kind ------------"
)


def row(epoch: Epoch) -> str:
    """An epoch in a line. `cached` was there; `ahead` was fetched before it was asked for; for `waited` the origin had
    to be waited for; `stand-in` is another image than the one planned."""
    return (
        f"{epoch.number:5}  {epoch.images:6}  {epoch.seconds:7.2f}  {epoch.waited_s / epoch.seconds:7.0%}"
        f"   {epoch.share('mem', 'ssd', 'hdd'):6.0%}  {epoch.share('prefetched'):5.0%}"
        f"  {epoch.share('origin', 'joined', 'bypass'):6.0%}  {epoch.share('substituted'):8.0%}"
        f"   {epoch.bytes_from_origin / 1e6:8.1f} MB  {epoch.train_accuracy:6.1%}"
        f"  {'none' if epoch.accuracy is None else f'{epoch.accuracy:.1%}':>10}"
        f"  {'exact' if epoch.exact else 'not exact'}"
    )


def network(name: str, classes: int) -> nn.Module:
    """A model by its name."""
    sizes = {"small": [16, 32], "large": [64, 128, 256, 512]}.get(name)
    if sizes is None:
        from torchvision import models

        return models.get_model(name, num_classes=classes)
    layers: list[nn.Module] = []
    for size_in, size in zip([3, *sizes], sizes):
        layers += [nn.Conv2d(size_in, size, 5, stride=2, padding=2), nn.BatchNorm2d(size), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(sizes[-1], classes))


def end_on_sigterm() -> None:
    """Has SIGTERM end this process as Ctrl-C does, with what it has begun put away."""

    process = os.getpid()

    def end(number: int, _: object) -> None:
        if os.getpid() != process:
            # A forked worker, which has nothing to put away.
            os._exit(0)
        # Nothing interrupts putting away: not this again, and not torch, which raises when workers have ended too.
        signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)


def end_node(cache: Path, patience_s: float = 30) -> None:
    """Ends the node that was started for a directory which is about to be removed. By itself it would end ten seconds
    after its last user; told to, it would first make safe what it has cached. Waits until it is gone, but no longer
    than `patience_s`."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        pid = json.loads((cache / "LOCK").read_text())["pid"]
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(0.02)


def whole(least: int) -> Callable[[str], int]:
    """Reads a whole number that is not too small."""

    def number(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
        return int(text)

    return number
