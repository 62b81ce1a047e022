"""`train_images.py --compare`: ways to cache against each other, on the same data, with several seeds.

Time is held against a prediction: an epoch that waits for storage takes misses * cost / parallelism, where the cost of
a miss is measured before, one at a time, and as many go at a time as the node may send. Accuracy is held against plain
training, that without a cache; the report says whether they differ by more than seeds do.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import multiprocessing
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import chart
import fodder
from training import Data, Epoch, end_node, end_on_sigterm, train

# What a t-distribution exceeds in one case of twenty, by degrees of freedom.
_EXCEEDED = {1: 12.7, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23}
# How long a job that is told to end may take.
_PATIENCE_S = 20.0


@dataclass(frozen=True)
class Way:
    """A way to train: a name, and the arguments that it stands for."""

    name: str
    how: dict[str, Any]
    jobs: int = 1


PLAIN = Way("no cache", {"cache_ratio": 0.0})
IMPORTANCE = Way("importance", {"policy": "importance", "sbp": True})
WAYS = [
    PLAIN,
    Way("lru", {"policy": "lru"}),
    Way("minio", {"policy": "minio"}),
    IMPORTANCE,
    Way("semantic", {"policy": "semantic", "mode": "approx"}),
    Way("plan", {"policy": "plan"}),
    Way("reorder, 2 jobs", {"policy": "pending", "mode": "reorder"}, jobs=2),
]


@dataclass
class Outcome:
    """What a way came to, over all seeds. The first epoch of each run, which fills the cache, is not counted."""

    way: Way
    cost_s: float
    parallel: int
    runs: list[list[Epoch]] = field(default_factory=list)

    @property
    def epochs(self) -> list[Epoch]:
        return [epoch for run in self.runs for epoch in run[1:]]

    @property
    def seconds(self) -> float:
        """Of an epoch."""
        return fmean(epoch.seconds for epoch in self.epochs)

    @property
    def waiting(self) -> float:
        return sum(epoch.waited_s for epoch in self.epochs) / sum(epoch.seconds for epoch in self.epochs)

    @property
    def misses(self) -> float:
        """Requests to the origin during an epoch, of all jobs that share the cache."""
        return fmean(epoch.requests for epoch in self.epochs)

    @property
    def hits(self) -> float:
        """The share of images that cost no request."""
        return 1 - self.misses / self.way.jobs / fmean(epoch.images for epoch in self.epochs)

    @property
    def megabytes(self) -> float:
        """From the origin, for an epoch of one job."""
        return fmean(epoch.bytes_from_origin for epoch in self.epochs) / self.way.jobs / 1e6

    @property
    def predicted_s(self) -> float:
        """What an epoch should take that only waits for storage."""
        return self.misses * self.cost_s / self.parallel

    @property
    def accuracies(self) -> list[float]:
        """At the end of each run, on the validation images."""
        return [run[-1].accuracy or 0.0 for run in self.runs]


def run(args: argparse.Namespace, data: Data, folder: Path) -> None:
    """Trains in every way, prints a table and what follows from it, and draws it."""
    if args.epochs < 2:
        raise ValueError("--compare needs --epochs 2 or more, since the first one only fills the cache")
    cost_s = cost_of_a_miss(data, folder / "cache")
    outcomes = [Outcome(way, cost_s, args.parallel) for way in WAYS]
    print(
        f"{args.images} images, {args.cache_ratio:.0%} of their bytes fit into the cache;"
        f" {args.epochs} epochs, {args.seeds} seeds\n"
        f"a miss costs {cost_s * 1000:.1f} ms ({args.latency} ms at the origin), {args.parallel} go at a time",
        flush=True,
    )
    cache = folder / "cache"
    for seed in range(args.seed, args.seed + args.seeds):
        for outcome in outcomes:
            settings = argparse.Namespace(**{**vars(args), **outcome.way.how, "seed": seed})
            if outcome.way.jobs == 1:
                outcome.runs.append(train(settings, data, cache, told=_quiet))
            else:
                other = argparse.Namespace(**{**vars(settings), "seed": seed + 1000})
                outcome.runs += together([settings, other], data, cache)
            discard(cache)
            last = outcome.runs[-1][-1]
            print(f"  seed {seed}, {outcome.way.name}: {last.seconds:.2f} s, {last.accuracy:.1%}", flush=True)
    print("\n".join(["", *table(outcomes), "", *times(outcomes), *accuracies(outcomes)]))
    Path(args.draw).write_text(chart.draw([_bar(outcome) for outcome in outcomes]))
    print(f"Drawn in {args.draw}.")


def cost_of_a_miss(data: Data, cache: Path) -> float:
    """Seconds, as a reader of single images has it."""
    dataset = fodder.open(data.origin, cache_dir=cache, cache_size="100%")
    # Far apart and backwards, so that nobody takes it for reading in order and fetches ahead.
    ids = range(len(dataset) - 1, 0, -max(1, len(dataset) // 30))
    begun = time.perf_counter()
    for image in ids:
        _ = dataset[image]
    took = time.perf_counter() - begun
    discard(cache)
    return took / len(ids)


def discard(cache: Path) -> None:
    """Ends a node and removes its directory."""
    end_node(cache)
    shutil.rmtree(cache, ignore_errors=True)


def table(outcomes: list[Outcome]) -> list[str]:
    """A line for each way."""
    lines = [
        f"{'':16} {'s/epoch':>8} {'waiting':>8} {'hits':>6} {'from origin':>12} {'misses':>7} {'predicted':>10}"
        f" {'seen/pred.':>10}   validation accuracy"
    ]
    for one in outcomes:
        seeds = " ".join(f"{accuracy:.1%}" for accuracy in one.accuracies)
        lines.append(
            f"{one.way.name:16} {one.seconds:8.2f} {one.waiting:8.0%} {one.hits:6.0%} {one.megabytes:9.2f} MB"
            f" {one.misses:7.0f} {one.predicted_s:8.2f} s {_ratio(one.seconds, one.predicted_s):10.2f}"
            f"   {fmean(one.accuracies):.1%} ({seeds})"
        )
    return lines


def times(outcomes: list[Outcome]) -> list[str]:
    """Whether caching saves the time that it should."""
    by_name = {one.way.name: one for one in outcomes}
    plain = by_name[PLAIN.name]
    lines = []
    for name in ("minio", "plan"):
        one = by_name[name]
        seen, predicted = _ratio(one.seconds, plain.seconds), _ratio(one.predicted_s, plain.predicted_s)
        within = "within" if abs(_ratio(seen, predicted) - 1) <= 0.15 else "NOT within"
        lines.append(
            f"Time: an epoch with {name} takes {seen:.2f} of one without a cache; predicted {predicted:.2f}"
            f" (misses * cost / parallelism), {within} 15 % of it."
        )
    return lines


def accuracies(outcomes: list[Outcome]) -> list[str]:
    """Whether caching and sampling by importance costs accuracy."""
    by_name = {one.way.name: one.accuracies for one in outcomes}
    plain, important = by_name[PLAIN.name], by_name[IMPORTANCE.name]
    same = all(by_name[name] == plain for name in ("lru", "minio", "plan"))
    lines = [
        "Accuracy: no cache, lru, minio and plan give the same images in the same order: "
        + ("the same accuracy to the last digit." if same else "yet their accuracies differ, see the table.")
    ]
    if len(plain) < 3:
        return [*lines, "Accuracy: fewer than 3 seeds tell nothing about importance; use --seeds 3."]
    apart = fmean(important) - fmean(plain)
    spread = math.sqrt((stdev(plain) ** 2 + stdev(important) ** 2) / len(plain))
    noise = spread * _EXCEEDED.get(2 * len(plain) - 2, 2.1)
    verdict = "within noise of" if abs(apart) <= noise else ("BETTER than" if apart > 0 else "WORSE than")
    return [
        *lines,
        f"Accuracy: with importance caching it is {verdict} plain training after as many epochs:"
        f" {apart * 100:+.1f} points, where {len(plain)} seeds each differ by up to {noise * 100:.1f} by chance.",
    ]


def _ratio(one: float, other: float) -> float:
    return one / other if other else math.nan


def _bar(one: Outcome) -> chart.Bar:
    return chart.Bar(one.way.name, one.seconds, one.predicted_s, one.megabytes, one.accuracies)


def _quiet(_: str) -> None:
    pass


def together(jobs: list[argparse.Namespace], data: Data, cache: Path) -> list[list[Epoch]]:
    """Trains jobs that begin at the same time, each in a process of its own; none is left, whatever ends this."""
    context = multiprocessing.get_context("spawn")
    barrier, processes, results = context.Barrier(len(jobs)), [], []
    try:
        for job in jobs:
            result, told = context.Pipe(duplex=False)
            processes.append(context.Process(target=_beside, args=(job, data, cache, barrier, told)))
            processes[-1].start()
            told.close()
            results.append(result)
        return [result.recv() for result in results]
    except EOFError:
        raise OSError("one of the jobs that trained together has failed") from None
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(_PATIENCE_S)
            # An exit that is raised in a destructor is lost.
            process.kill()
            process.join()


def _beside(args: argparse.Namespace, data: Data, cache: Path, barrier: Any, told: Any) -> None:
    """One of jobs that begin together."""
    end_on_sigterm()
    with contextlib.suppress(KeyboardInterrupt):
        told.send(train(args, data, cache, told=_quiet, ready=lambda: barrier.wait(60)))
