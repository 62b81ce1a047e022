"""Fodder for TensorFlow: a dataset as a `tf.data.Dataset`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

import fodder

__all__ = ["dataset"]


def dataset(source: fodder.Dataset, *, fetch: int = 64, **order: Any) -> Any:
    """Elements are (bytes, label), label -1 where there is none; `fetch` of them come in one round trip.

    `order` is as for `fodder.Dataset.batches`: `seed`, `epoch`, `rank`, `world`, `uneven`.
    """

    def elements() -> Iterator[tuple[bytes, int]]:
        for samples, labels in source.batches(fetch, **order):
            for sample, label in zip(samples, labels.tolist()):
                yield sample.tobytes(), label

    signature = (tf.TensorSpec((), tf.string), tf.TensorSpec((), tf.int64))
    return tf.data.Dataset.from_generator(elements, output_signature=signature)
