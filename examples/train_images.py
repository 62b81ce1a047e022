#!/usr/bin/env python3
"""Trains a network on images through Fodder, and says where the time goes.

    python examples/train_images.py                               # pictures made on the spot, behind slow storage
    python examples/train_images.py --sbp --policy importance     # sample by importance, and cache by it
    python examples/train_images.py --policy semantic --mode approx   # report embeddings, and serve like for like
    python examples/train_images.py --data s3://bucket/train --val s3://bucket/val --arch resnet50 -b 256
    python examples/train_images.py --compare --seeds 3           # ways to cache against each other, with a drawing

Without --data it makes pictures (pictures.py says which) and puts them behind an origin where each request takes
--latency, and --parallel of them go at a time; --cache-ratio of the data fits into the cache. The training loop is in
training.py. Needs the package `fodder` and torch; for --data and the models of torchvision also that and Pillow.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import compare
import fodder
import fodder.torch as ft
import pictures
import torch
from training import Batches, Data, cache_size, end_node, end_on_sigterm, train, whole

POLICIES = ["minio", "lru", "lfu", "sieve", "s3fifo", "importance", "semantic", "quiver", "pending", "plan", "auto"]


def main() -> None:
    args = arguments()
    folder = Path(tempfile.mkdtemp(prefix="fodder-example-"))
    try:
        data = prepare(args, folder)
        if args.compare:
            compare.run(args, data, folder)
        else:
            train(args, data, folder / "cache")
    except (fodder.FodderError, OSError, ValueError, ImportError) as error:
        sys.exit(f"train_images: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        for cache in (folder / "cache", folder / "val-cache"):
            end_node(cache, patience_s=0)
        # By somebody else, since it may take seconds and whoever pressed Ctrl-C wants to go on.
        subprocess.Popen(["rm", "-rf", folder], start_new_session=True)


def prepare(args: argparse.Namespace, folder: Path) -> Data:
    """The images that the arguments name, or pictures made for this run."""
    if args.data is None:
        classes = args.num_classes or 10
        pictures.make(folder / "train", args.images, classes, seed=1)
        pictures.make(folder / "val", max(args.images // 4, classes), classes, seed=2, wrong=0)
        # How many requests go at a time is a setting of the node, which takes it from this file when it is started.
        settings = folder / "node.yaml"
        settings.write_text(f"engine:\n  origin_concurrency: {args.parallel}\n")
        os.environ["FODDER_CONFIG"] = str(settings)
        origin = f"throttled:latency={args.latency}ms:{folder / 'train'}"
        return Data(origin, {"loader": pictures.decode}, [pictures.read(folder / "val")], classes)
    from torchvision import transforms as steps

    side = 224
    usual = [steps.ToTensor(), steps.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    augment = steps.Compose([steps.RandomResizedCrop(side), steps.RandomHorizontalFlip(), *usual])
    # One open tells how many classes there are, before anything is trained.
    cache = args.cache_dir or str(folder / "cache")
    found = len(ft.ImageFolder(args.data, cache_dir=cache, cache_size=cache_size(args), policy=args.policy).classes)
    classes = args.num_classes or found
    if classes < found:
        raise ValueError(f"there are {found} classes in {args.data}, and --num-classes is {classes}")
    held: Batches = []
    if args.val:
        plain = steps.Compose([steps.Resize(side * 8 // 7), steps.CenterCrop(side), *usual])
        images = ft.ImageFolder(args.val, plain, cache_dir=str(folder / "val-cache"))
        held = torch.utils.data.DataLoader(images, batch_size=args.batch_size, num_workers=args.workers)
    return Data(args.data, {"transform": augment}, held, classes)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", metavar="PATH|URI", help="images in class directories; made on the spot if not given")
    add("--val", metavar="PATH|URI", help="images to validate with, beside --data")
    add("--arch", default="small", help="small, large, or a model of torchvision such as resnet18")
    add("--epochs", type=whole(1), default=5)
    add("-b", "--batch-size", type=whole(1), default=32)
    add("--lr", type=float, default=3e-3)
    add("--workers", type=whole(0), default=2)
    add("-p", "--print-freq", type=whole(0), default=0, metavar="N", help="print every N batches")
    add("--num-classes", type=whole(2), help="default: as many as there are, 10 for pictures made on the spot")
    add("--sbp", action="store_true", help="sample by importance (selective backpropagation)")
    add("--reuse-factor", type=whole(1), default=3, help="every so many epochs have every image")
    add("--warm-up", type=whole(0), default=1, help="epochs at the beginning that have every image")
    add(
        "--policy",
        default="minio",
        choices=POLICIES,
        metavar="NAME",
        help=f"what stays: {', '.join(POLICIES)}",
    )
    add("--mode", default="strict", choices=["strict", "reorder", "approx"])
    add("--window", type=share, default=0.2, help="of reorder: how far, as a share of an epoch")
    add("--cache-ratio", type=share, default=0.4, help="share of the data that fits into the cache; 0: no cache")
    add("--cache-dir", help="join the node of this directory, and keep what is cached; default: one for this run")
    add("--latency", type=whole(0), default=40, metavar="MS", help="of a request, where data is made on the spot")
    add(
        "--parallel",
        type=whole(1),
        default=16,
        metavar="N",
        help="requests at a time, where data is made on the spot",
    )
    add("--images", type=whole(20), default=2000, help="how many to make")
    add("--seed", type=whole(0), default=0)
    add("--compare", action="store_true", help="compare ways to cache instead of one training run")
    add("--seeds", type=whole(1), default=3, help="of --compare: runs of each")
    add("--draw", default="comparison.svg", metavar="FILE", help="of --compare: where to draw it")
    args = parser.parse_args()
    if args.compare and args.data:
        parser.error("--compare makes its own data: it needs to know what a request costs")
    if not args.data and (args.val or args.cache_dir):
        parser.error("--val and --cache-dir go with --data")
    return args


def share(text: str) -> float:
    """Reads a share."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share between 0 and 1")
    return value


if __name__ == "__main__":
    end_on_sigterm()
    main()
