"""Fodder for PyTorch: datasets, samplers, and a loader that knows what the cache holds and what was really trained on.

Two lines of a training script:

    dataset = fodder.torch.ImageFolder("s3://bucket/imagenet/train", transform)
    loader = fodder.torch.Loader(dataset, batch_size=256, num_workers=8, seed=0)

    for epoch in range(90):
        for images, targets in loader:
            ...

`Loader` introduces the job to the node, plans each epoch by a keyed permutation, shares it out to the ranks, counts the
batches that the loop took, audits every epoch and resumes in the middle of one on another number of ranks
(`state_dict`, `load_state_dict`). `ItemDataset` and `EpochSampler` also work with `torch.utils.data.DataLoader` alone.
"""

from fodder.torch._audit import Audit
from fodder.torch._dataset import ImageFolder, ItemDataset, TarDataset
from fodder.torch._loader import Loader
from fodder.torch._mode import Approx, Reorder, Strict
from fodder.torch._sampler import EpochSampler, ImportanceSampler
from fodder.torch._select import Selection, SelectiveBackprop

__all__ = [
    "Approx",
    "Audit",
    "EpochSampler",
    "ImageFolder",
    "ImportanceSampler",
    "ItemDataset",
    "Loader",
    "Reorder",
    "Selection",
    "SelectiveBackprop",
    "Strict",
    "TarDataset",
]
