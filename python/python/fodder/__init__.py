"""Fodder keeps GPUs fed: a training-data cache between training jobs and slow storage.

    import fodder

    ds = fodder.open("s3://bucket/imagenet", cache_size="200GiB")   # joins this host's node, or starts one
    len(ds), ds.classes, ds[17]                                     # an item is bytes
    batch = ds.get_batch([3, 1, 2])                                 # one round trip, views without copies
    ds.warm()                                                       # bring it all in first

`fodder.connect()` reaches a node that runs. `fodder.torch` has datasets, samplers and a loader for PyTorch. Nothing
of a framework is imported until the module for it is.
"""

from fodder import errors
from fodder._client import Client, Dataset, connect, open
from fodder._eviction import Eviction
from fodder._fodder import Batch, __version__
from fodder._stats import Stats
from fodder.errors import FodderError

__all__ = ["Batch", "Client", "Dataset", "Eviction", "FodderError", "Stats", "__version__", "connect", "errors", "open"]
