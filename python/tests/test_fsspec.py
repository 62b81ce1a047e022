"""`fodder://`: fsspec's own tests for reading, and those who read through it."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys

import fodder
import pytest

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")

from fodder.fsspec import FodderFileSystem, gopen  # noqa: E402
from fsspec.implementations.local import LocalFileSystem, make_path_posix  # noqa: E402
from fsspec.tests import abstract  # noqa: E402


class WritableOrigin(FodderFileSystem):
    """fsspec's tests write what they then read: here at the origin, behind the node's back.

    Of its abstract tests, those of `get` are about reading alone. Those of `copy` and `put` are run too, for what they
    read: which paths a glob, a list or a directory means, and what is then there. Those of `open` and `pipe` are about
    creating a file that must not exist, which a read-only file system never does; `mv` has none for other file systems.
    """

    cachable = False

    def __init__(self, origin, **options):
        super().__init__(**options)
        self.origin = str(origin)

    def _at_origin(self, path):
        return os.path.join(self.origin, self._split(path)[1])

    def makedirs(self, path, exist_ok=False):
        os.makedirs(self._at_origin(path), exist_ok=exist_ok)
        self._dataset("files").refresh()

    def mkdir(self, path, create_parents=True, **options):
        self.makedirs(path, exist_ok=True)

    def touch(self, path, truncate=True, **options):
        self.pipe_file(path, b"")

    def pipe_file(self, path, value, mode="overwrite", **options):
        place = self._at_origin(path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(value)
        self._dataset("files").refresh()

    def cp_file(self, source, target, **options):
        self.mkdir(target) if self.isdir(source) else self.pipe_file(target, self.cat_file(source))

    def put_file(self, source, target, callback=None, mode="overwrite", **options):
        if os.path.isdir(source):
            self.mkdir(target)
        else:
            with open(source, "rb") as file:
                self.pipe_file(target, file.read())

    def rm(self, path, recursive=False, maxdepth=None):
        for one in [path] if isinstance(path, str) else path:
            place = self._at_origin(one)
            shutil.rmtree(place) if os.path.isdir(place) else os.unlink(place)
        self._dataset("files").refresh(confirm_removals=True)


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "keep").mkdir()
    (folder / "keep" / "first.txt").write_text("first")
    return folder


@pytest.fixture(scope="module")
def files(origin, tmp_path_factory):
    from conftest import ServedNode

    node = ServedNode(tmp_path_factory.mktemp("node") / "cache", str(origin), "--name", "files")
    yield node
    node.stop()


class FodderFixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self, origin, files):
        return WritableOrigin(origin, addr=files.address)

    @pytest.fixture
    def fs_path(self):
        return "files"

    @pytest.fixture(scope="class")
    def local_fs(self):
        return LocalFileSystem(auto_mkdir=True)

    @pytest.fixture
    def local_path(self, tmpdir):
        return make_path_posix(str(tmpdir))

    @pytest.fixture
    def supports_empty_directories(self):
        return True


class TestGet(abstract.AbstractGetTests, FodderFixtures):
    pass


class TestCopy(abstract.AbstractCopyTests, FodderFixtures):
    pass


class TestPut(abstract.AbstractPutTests, FodderFixtures):
    pass


def test_empty_directories_are_listed_and_walked(serve, tmp_path):
    origin = tmp_path / "tree"
    for path in ["valid", "a/b/c", "train/none"]:
        (origin / path).mkdir(parents=True)
    (origin / "train" / "1").write_text("1")
    node = serve(str(origin), "--name", "tree")
    fs = FodderFileSystem(addr=node.address, skip_instance_cache=True)
    assert fs.ls("tree", detail=False) == ["tree/a", "tree/train", "tree/valid"]
    assert fs.ls("tree/valid") == [] and fs.ls("tree/a/b/c") == []
    for path in ["tree/valid", "tree/a", "tree/a/b", "tree/a/b/c", "tree/train/none"]:
        assert fs.isdir(path) and fs.exists(path) and not fs.isfile(path)
        assert fs.info(path)["type"] == "directory"
    assert not fs.exists("tree/valid/x")
    directories = ["tree/a", "tree/a/b", "tree/a/b/c", "tree/train", "tree/train/none", "tree/valid"]
    assert fs.find("tree") == ["tree/train/1"]
    assert sorted(set(fs.find("tree", withdirs=True)) - {"tree"}) == sorted([*directories, "tree/train/1"])
    walked = {os.path.relpath(top, "tree"): (sorted(dirs), files) for top, dirs, files in fs.walk("tree")}
    here = {os.path.relpath(top, origin): (sorted(dirs), files) for top, dirs, files in os.walk(origin)}
    assert walked == here
    fs.get("tree", str(tmp_path / "copy"), recursive=True)
    assert sorted(os.listdir(tmp_path / "copy")) == ["a", "train", "valid"]
    with pytest.raises(IsADirectoryError):
        fs.cat_file("tree/valid")
    (origin / "valid").rmdir()
    (origin / "new").mkdir()
    fodder.connect(node.address).dataset("tree").refresh()
    assert fs.ls("tree", detail=False) == ["tree/a", "tree/new", "tree/train"] and not fs.exists("tree/valid")


def test_files_are_listed_described_and_read(node, data):
    fs = fsspec.filesystem("fodder", addr=node.address)
    assert fs.ls("fodder://", detail=False) == ["pets"]
    assert fs.ls("pets", detail=False) == ["pets/class0", "pets/class1", "pets/class2"]
    path = f"pets/{data.paths[3]}"
    info = fs.info(path)
    assert (info["type"], info["size"], info["name"]) == ("file", len(data.content[3]), path)
    assert len({fs.info(f"pets/{name}")["ETag"] for name in data.paths}) == len(data)
    assert fs.isdir("pets") and fs.isdir("pets/class1") and fs.isfile(path) and fs.exists(path)
    assert fs.cat_file(path) == data.content[3]
    assert fs.cat_file(path, -5) == data.content[3][-5:] and fs.cat_file(path, 10, 20) == data.content[3][10:20]
    assert fs.glob("pets/**/0000.png") == [f"pets/class{label}/0000.png" for label in range(3)]
    assert sorted(fs.find("pets")) == sorted(f"pets/{name}" for name in data.paths)
    assert fs.modified(path).timestamp() == pytest.approx((data.folder / data.paths[3]).stat().st_mtime, abs=1e-3)
    with fsspec.open(f"fodder://{path}", addr=node.address) as file:
        assert file.read(7) == data.content[3][:7]
        file.seek(100)
        assert file.read() == data.content[3][100:]


def test_what_is_not_there_or_not_allowed_is_as_on_any_file_system(node):
    fs = fsspec.filesystem("fodder", addr=node.address)
    for path in ("cars/1.png", "pets/nothing", "pets/class0/nothing.png"):
        assert not fs.exists(path)
        with pytest.raises(FileNotFoundError):
            fs.cat_file(path)
        with pytest.raises(FileNotFoundError):
            fs.info(path)
    with pytest.raises(IsADirectoryError):
        fs.cat_file("pets/class0")
    with pytest.raises(OSError, match="read-only"):
        fs.open("pets/new.png", "wb")


def test_a_change_is_seen_whole_and_an_open_file_stays_what_it_was(serve, tmp_path):
    folder = tmp_path / "changing"
    folder.mkdir()
    before = {"shrinks": b"long and old", "grows": b"old"}
    after = {"shrinks": b"new", "grows": b"long and new", "comes": b"here"}
    for name, content in before.items():
        (folder / name).write_bytes(content)
    address = serve(str(folder), "--name", "changing", "--layout", "blocks").address
    fs = fsspec.filesystem("fodder", addr=address)
    tags = {name: fs.info(f"changing/{name}")["ETag"] for name in before}
    assert {name: fs.cat_file(f"changing/{name}") for name in before} == before
    opened = {name: fs.open(f"changing/{name}", cache_type="none") for name in before}
    for name, content in after.items():
        (folder / f"{name}.new").write_bytes(content)
        (folder / f"{name}.new").rename(folder / name)
    fodder.connect(address).dataset("changing").refresh()
    assert [os.path.basename(path) for path in fs.ls("changing", detail=False)] == sorted(after)
    for name, content in after.items():
        path = f"changing/{name}"
        assert fs.info(path)["size"] == len(content) and fs.info(path)["ETag"] != tags.get(name)
        assert fs.cat_file(path) == content and fs.cat_file(path, -3) == content[-3:]
        assert fs.open(path).read() == content
    for name, file in opened.items():
        assert file.read(3) == before[name][:3]
        # Also in another process.
        again = pickle.loads(pickle.dumps(file))
        assert file.read(100) == again.read() == before[name][3:]
        assert file.info()["ETag"] == again.info()["ETag"] == tags[name]


def test_pandas_reads_parquet_through_it(serve, tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (tmp_path / "tables").mkdir()
    table = pandas.DataFrame({"a": range(1000), "b": [str(number) for number in range(1000)]})
    table.to_parquet(tmp_path / "tables" / "one.parquet")
    address = serve(str(tmp_path / "tables"), "--name", "tables").address
    read = pandas.read_parquet("fodder://tables/one.parquet", columns=["b"], storage_options={"addr": address})
    assert read.equals(table[["b"]])


def test_arrow_datasets_read_through_it(serve, tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pyarrow.parquet")

    (tmp_path / "tables").mkdir()
    for part in range(3):
        table = arrow.table({"a": list(range(part * 10, part * 10 + 10))})
        arrow.parquet.write_table(table, tmp_path / "tables" / f"{part}.parquet")
    address = serve(str(tmp_path / "tables"), "--name", "tables").address
    fs = fsspec.filesystem("fodder", addr=address)
    read = arrow.dataset.dataset("tables", filesystem=fs, format="parquet").to_table()
    assert sorted(read["a"].to_pylist()) == list(range(30))


def test_hugging_face_datasets_read_through_it_and_see_a_change(serve, tmp_path, monkeypatch):
    hugging = pytest.importorskip("datasets", reason="datasets (Hugging Face) is not installed")
    (tmp_path / "lines").mkdir()
    for part in range(3):
        rows = "".join(f'{{"a": {number}}}\n' for number in range(part * 10, part * 10 + 10))
        (tmp_path / "lines" / f"{part}.jsonl").write_text(rows)
    address = serve(str(tmp_path / "lines"), "--name", "lines").address
    monkeypatch.setenv("FODDER_ADDR", address)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def load(**how):
        files = "fodder://lines/*.jsonl"
        return hugging.load_dataset("json", data_files=files, split="train", cache_dir=str(tmp_path / "hub"), **how)

    assert sorted(load()["a"]) == list(range(30))
    assert sorted(row["a"] for row in load(streaming=True)) == list(range(30))
    (tmp_path / "lines" / "1.jsonl").write_text('{"a": 100}\n')
    fodder.connect(address).dataset("lines").refresh()
    FodderFileSystem.clear_instance_cache()
    # What it has downloaded once it takes by the name alone, whatever the file system.
    assert sorted(load(download_mode="force_redownload")["a"]) == [*range(10), *range(20, 30), 100]


def test_webdataset_reads_shards_through_it(serve, tmp_path, monkeypatch):
    webdataset = pytest.importorskip("webdataset", reason="WebDataset is not installed")
    shards = tmp_path / "shards"
    shards.mkdir()
    for shard in range(2):
        with webdataset.TarWriter(str(shards / f"{shard}.tar")) as writer:
            for number in range(3):
                writer.write({"__key__": f"{shard}{number:03}", "txt": f"{shard} {number}", "cls": number})
    monkeypatch.setenv("FODDER_ADDR", serve(str(shards), "--name", "shards", "--layout", "blocks").address)
    monkeypatch.setitem(webdataset.gopen_schemes, "fodder", gopen)
    loaded = webdataset.WebDataset("fodder://shards/{0..1}.tar", shardshuffle=False).decode().to_tuple("txt", "cls")
    expected = [(f"{shard} {number}", number) for shard in range(2) for number in range(3)]
    assert list(loaded) == expected
    torch = pytest.importorskip("torch", reason="torch is not installed")
    workers = torch.utils.data.DataLoader(loaded, batch_size=None, num_workers=2)
    assert sorted(tuple(sample) for sample in workers) == expected


def test_importing_the_module_registers_the_protocol():
    code = "import fodder.fsspec, fsspec; print(fsspec.registry['fodder'].__name__)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout.strip() == "FodderFileSystem", ended.stderr
