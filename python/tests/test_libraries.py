"""polars, MosaicML Streaming and LitData, by `fodder://` where they take it, and over a mount (docs/TRAINING.md)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

import fodder.fsspec  # noqa: F401, registers the protocol
import fsspec
import pytest

COUNT = 300
# Small, so that there are several of each.
SHARD_BYTES = 1 << 16


def payload(number):
    return bytes([number % 256]) * 1000


@pytest.fixture
def tables(serve, tmp_path):
    """A node with two tables, and polars."""
    polars = pytest.importorskip("polars", reason="polars is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    folder = tmp_path / "tables"
    folder.mkdir()
    for part in range(2):
        rows = range(part * 10, part * 10 + 10)
        polars.DataFrame({"a": rows, "b": [str(row) for row in rows]}).write_parquet(folder / f"{part}.parquet")
    return serve(str(folder), "--name", "tables"), polars


def test_polars_reads_urls_through_arrow_and_open_files(tables):
    node, polars = tables
    options = {"addr": node.address}
    read = polars.read_parquet("fodder://tables/1.parquet", use_pyarrow=True, columns=["b"], storage_options=options)
    assert read["b"].to_list() == [str(row) for row in range(10, 20)]
    with fsspec.open("fodder://tables/1.parquet", **options) as file:
        assert polars.scan_parquet(file).filter(polars.col("a") > 17).collect().rows() == [(18, "18"), (19, "19")]


def test_polars_scans_a_mount(tables, mount):
    node, polars = tables
    scanned = polars.scan_parquet(mount(node, "tables") / "*.parquet").filter(polars.col("a") > 8).collect()
    assert sorted(scanned["a"].to_list()) == list(range(9, 20))


@pytest.fixture
def mosaic(serve, tmp_path):
    """A node with shards of MosaicML Streaming, plain and compressed."""
    streaming = pytest.importorskip("streaming", reason="MosaicML Streaming is not installed")
    for name, compression in {"plain": None, "packed": "zstd"}.items():
        columns = {"number": "int", "payload": "bytes"}
        out = str(tmp_path / "shards" / name)
        with streaming.MDSWriter(out=out, columns=columns, compression=compression, size_limit=SHARD_BYTES) as writer:
            for number in range(COUNT):
                writer.write({"number": number, "payload": payload(number)})
    return serve(str(tmp_path / "shards"), "--name", "shards")


# Streaming shares memory with its workers and ends with its process, so each dataset has a process of its own.
MOSAIC = """
import json, sys
import fodder.mosaicml
from streaming import StreamingDataset
from torch.utils.data import DataLoader

if __name__ == "__main__":
    dataset = StreamingDataset(**json.loads(sys.argv[1]), shuffle=True, batch_size=10, num_canonical_nodes=1)
    loader = DataLoader(dataset, batch_size=10, num_workers=2, multiprocessing_context=sys.argv[2])
    epoch = sorted(int(number) for batch in loader for number in batch["number"])
    for sample in map(dataset.__getitem__, range(0, len(dataset), 7)):
        assert sample["payload"] == bytes([sample["number"] % 256]) * 1000
    print(json.dumps(epoch))
"""


def mosaic_epoch(tmp_path, node, context="fork", **arguments):
    script = tmp_path / "epoch.py"
    script.write_text(MOSAIC)
    arguments = json.dumps({name: str(value) for name, value in arguments.items()})
    command = [sys.executable, str(script), arguments, context]
    # Streaming leaves locks in the directory for temporary files. Below `tmp_path`, names of sockets would be too long.
    with tempfile.TemporaryDirectory() as temporary:
        environment = {**os.environ, "FODDER_ADDR": node.address, "TMPDIR": temporary}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize(("shards", "context"), [("plain", "fork"), ("packed", "spawn")])
def test_mosaicml_streaming_reads_a_fodder_url(mosaic, tmp_path, shards, context):
    arguments = {"remote": f"fodder://shards/{shards}", "local": tmp_path / "local"}
    assert mosaic_epoch(tmp_path, mosaic, context, **arguments) == list(range(COUNT))
    assert not list((tmp_path / "local").glob("*.tmp"))


def test_mosaicml_streaming_names_a_shard_that_is_not_there(mosaic, tmp_path, monkeypatch):
    import fodder.mosaicml

    monkeypatch.setenv("FODDER_ADDR", mosaic.address)
    with pytest.raises(FileNotFoundError, match="shards/nothing"):
        fodder.mosaicml.FodderDownloader().download("fodder://shards/nothing", str(tmp_path / "local" / "nothing"))
    assert list((tmp_path / "local").iterdir()) == []


def test_mosaicml_streaming_reads_a_mount_in_place(mosaic, mount, tmp_path):
    point = mount(mosaic, "shards")
    assert mosaic_epoch(tmp_path, mosaic, local=point / "plain") == list(range(COUNT))


def test_mosaicml_streaming_reads_compressed_shards_of_a_mount(mosaic, mount, tmp_path):
    arguments = {"remote": mount(mosaic, "shards") / "packed", "local": tmp_path / "local"}
    assert mosaic_epoch(tmp_path, mosaic, **arguments) == list(range(COUNT))


LITDATA = """
import json, sys
import litdata

def sample(number):
    return {"number": number, "payload": bytes([number % 256]) * 1000}

if __name__ == "__main__":
    what, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if what == "write":
        litdata.optimize(sample, list(range(count)), output_dir=folder, chunk_bytes="64KB", num_workers=1)
        sys.exit()
    dataset = litdata.StreamingDataset(folder, shuffle=True)
    loader = litdata.StreamingDataLoader(dataset, batch_size=10, num_workers=2)
    print(json.dumps(sorted(int(number) for batch in loader for number in batch["number"])))
    direct = litdata.StreamingDataset(folder)
    assert all(direct[place] == sample(place) for place in range(0, count, 7))
"""


def test_litdata_reads_a_mount_in_place(serve, mount, tmp_path, monkeypatch):
    pytest.importorskip("litdata", reason="LitData is not installed")
    script = tmp_path / "litdata_epoch.py"
    script.write_text(LITDATA)
    # What LitData copies or prepares would be below it.
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "prepared").mkdir()
    monkeypatch.setenv("DATA_OPTIMIZER_CACHE_FOLDER", str(tmp_path / "prepared" / "cache"))
    monkeypatch.setenv("DATA_OPTIMIZER_DATA_CACHE_FOLDER", str(tmp_path / "prepared" / "data"))

    def run(what, folder):
        command = [sys.executable, str(script), what, str(folder), str(COUNT)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    run("write", tmp_path / "chunks")
    point = mount(serve(str(tmp_path / "chunks"), "--name", "chunks"), "chunks")
    assert json.loads(run("read", point)) == list(range(COUNT))
    assert not list(home.rglob("*.bin"))
