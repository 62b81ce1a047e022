"""`fodder://` as a remote of MosaicML Streaming, for machines where nothing can be mounted.

    import fodder.mosaicml
    streaming.StreamingDataset(remote="fodder://shards/train", local="/scratch/train", batch_size=256)

Importing this module registers the scheme. `FODDER_ADDR` says where the node is. Streaming copies each shard to
`local`, in addition to what the node caches. Over a mount it reads uncompressed shards without a copy.
"""

from __future__ import annotations

import os

import fsspec
from streaming.base.storage import CloudDownloader
from streaming.base.storage.download import DOWNLOADER_MAPPINGS

import fodder.fsspec  # noqa: F401, registers the protocol for fsspec

__all__ = ["FodderDownloader"]


class FodderDownloader(CloudDownloader):
    """Downloads shards and indexes from a node."""

    @staticmethod
    def _client_identifier() -> str:
        return "fodder"

    def clean_up(self) -> None:
        """Keeps the connections: other streams share them, and a broken one is replaced by itself."""

    def _download_file_impl(self, remote: str, local: str, timeout: float) -> None:
        # Streaming takes a file that is there for a whole one.
        partial = f"{local}.tmp"
        try:
            fsspec.filesystem("fodder", timeout=timeout).get_file(remote, partial)
            os.replace(partial, local)
        except BaseException:
            if os.path.exists(partial):
                os.remove(partial)
            raise


DOWNLOADER_MAPPINGS[FodderDownloader._client_identifier()] = FodderDownloader
