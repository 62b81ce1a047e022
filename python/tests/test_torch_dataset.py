"""Datasets for PyTorch, in its own DataLoader."""

from __future__ import annotations

import io
import pickle
import shutil
import tarfile
import traceback

import fodder
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import fodder.torch as ft  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Real images, a colour a class."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    folder = tmp_path_factory.mktemp("pictures")
    for label, name in enumerate(["ant", "bee", "cat"]):
        (folder / name).mkdir()
        for number in range(4):
            image.new("RGB", (8, 6), (label * 90, number * 50, 7)).save(folder / name / f"{number}.png")
    return folder


def size_and_first(view):
    """A transform that workers can be sent."""
    return torch.tensor([len(view), view[0]])


@pytest.mark.parametrize(("workers", "context"), [(0, None), (2, "fork"), (2, "spawn"), (2, "forkserver")])
def test_a_dataloader_reads_items_in_order_with_workers_of_every_kind(pets, data, workers, context):
    dataset = ft.ItemDataset(pets, size_and_first)
    loader = DataLoader(dataset, batch_size=5, num_workers=workers, multiprocessing_context=context)
    samples, labels = zip(*loader)
    expected = [[len(content), content[0]] for content in data.content]
    assert torch.cat(samples).tolist() == expected
    assert torch.cat(labels).tolist() == data.labels


def test_persistent_workers_read_epoch_after_epoch(pets, data):
    dataset = ft.ItemDataset(pets, size_and_first)
    loader = DataLoader(dataset, batch_size=7, num_workers=2, persistent_workers=True)
    for _ in range(3):
        assert torch.cat([labels for _, labels in loader]).tolist() == data.labels


def test_without_a_transform_a_sample_is_bytes(pets, data):
    dataset = ft.ItemDataset(pets, target_transform=lambda label: -label)
    assert dataset[3] == (data.content[3], -data.labels[3])
    assert [sample for sample, _ in dataset.__getitems__([2, 0])] == [data.content[2], data.content[0]]


def test_an_imagefolder_is_torchvisions(serve, pictures):
    torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")
    theirs = torchvision.datasets.ImageFolder(str(pictures))
    ours = ft.ImageFolder(fodder.connect(serve(str(pictures), "--name", "pictures").address).dataset("pictures"))
    assert (ours.classes, ours.class_to_idx, ours.targets) == (theirs.classes, theirs.class_to_idx, theirs.targets)
    relative = [(path[len(str(pictures)) + 1 :], label) for path, label in theirs.samples]
    assert ours.samples == ours.imgs == relative
    assert len(ours) == len(theirs)
    for (image, target), (expected, label) in zip((ours[index] for index in range(len(ours))), theirs):
        assert target == label and image.mode == expected.mode and image.tobytes() == expected.tobytes()
    to_tensor = torchvision.transforms.ToTensor()
    transformed = ft.ImageFolder(ours.dataset, transform=to_tensor)
    assert torch.equal(transformed[5][0], to_tensor(theirs[5][0]))


def test_empty_directories_change_no_class_and_no_label(serve, pictures, tmp_path):
    torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")
    root = tmp_path / "pictures"
    shutil.copytree(pictures, root)
    some_class = sorted(path for path in root.iterdir() if path.is_dir())[0]
    (some_class / "none" / "deeper").mkdir(parents=True)
    dataset = fodder.connect(serve(str(root), "--name", "pictures").address).dataset("pictures")
    theirs = torchvision.datasets.ImageFolder(str(root))
    ours = ft.ImageFolder(dataset)
    assert (ours.classes, ours.targets) == (theirs.classes, theirs.targets)
    samples = ours.samples
    # A class without a file is refused by torchvision, or a class of its own; here it is none, as on an object store.
    (root / "!empty").mkdir()
    with pytest.raises(FileNotFoundError, match="!empty"):
        torchvision.datasets.ImageFolder(str(root))
    assert torchvision.datasets.ImageFolder(str(root), allow_empty=True).classes == ["!empty", *theirs.classes]
    dataset.refresh()
    again = ft.ImageFolder(dataset)
    assert (again.classes, again.samples) == (theirs.classes, samples)


def test_a_folder_without_classes_is_refused(pets, serve, tmp_path):
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "notes.txt").write_text("no image")
    flat = fodder.connect(serve(str(tmp_path / "flat"), "--name", "flat").address).dataset("flat")
    with pytest.raises(FileNotFoundError, match="class directories"):
        ft.ImageFolder(flat)


def test_samples_of_shards_are_dictionaries(serve, tmp_path):
    shards = tmp_path / "shards"
    shards.mkdir()
    for shard in range(2):
        with tarfile.open(shards / f"{shard}.tar", "w") as archive:
            for number in range(3):
                for name, content in {"jpg": b"image" * number, "cls": b"%d" % (shard * 3 + number)}.items():
                    member = tarfile.TarInfo(f"{shard}{number:03}.{name}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    node = serve(str(shards), "--name", "shards", "--layout", "tar")
    dataset = ft.TarDataset(fodder.connect(node.address).dataset("shards"))
    assert len(dataset) == 6
    assert dataset[4] == {"__key__": "1001", "jpg": b"image", "cls": b"4"}
    numbers = ft.TarDataset(dataset.dataset, transform=lambda sample: int(sample["cls"]))
    assert numbers.__getitems__(range(6)) == list(range(6))


def test_lists_of_an_imagefolder_are_built_once_and_anew_for_another_snapshot(serve, pictures):
    pictures_of = fodder.connect(serve(str(pictures), "--name", "pictures").address).dataset("pictures")
    folder = ft.ImageFolder(pictures_of)
    assert folder.targets is folder.targets
    assert folder.samples is folder.samples and folder.imgs is folder.samples
    assert folder.class_to_idx is folder.class_to_idx
    before = folder.samples
    assert pickle.loads(pickle.dumps(folder)).samples == before
    folder.dataset = pictures_of.refresh()
    assert folder.samples is not before and folder.samples == before


@pytest.fixture
def damaged(tmp_path, serve):
    """Pictures of which one is none."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    (tmp_path / "pictures" / "ant").mkdir(parents=True)
    for number in range(4):
        image.new("RGB", (8, 6), (number, 0, 0)).save(tmp_path / "pictures" / "ant" / f"{number}.png")
    (tmp_path / "pictures" / "ant" / "2.png").write_bytes(b"this is no picture" * 300)
    node = serve(str(tmp_path / "pictures"), "--name", "ants")
    return ft.ImageFolder(fodder.connect(node.address).dataset("ants"), transform=size_of)


def size_of(image):
    return torch.tensor(image.size)


NAMED = "fodder: item 2 ('ant/2.png') of dataset 'ants', 5400 bytes"


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("loader", [DataLoader, ft.Loader])
def test_a_corrupt_sample_is_named_with_dataset_id_and_path(damaged, loader, workers):
    import PIL

    with pytest.raises(PIL.UnidentifiedImageError) as raised:
        list(loader(damaged, batch_size=2, num_workers=workers))
    assert NAMED in "".join(traceback.format_exception(raised.type, raised.value, raised.tb))


def test_one_corrupt_sample_is_named_too(damaged):
    with pytest.raises(OSError, match="cannot identify image file") as raised:
        damaged[2]
    assert NAMED in "".join(traceback.format_exception(raised.type, raised.value, raised.tb))


def test_without_notes_the_item_is_named_in_the_message():
    from fodder.torch._context import annotate

    class Old(Exception):
        add_note = property()

    error = Old("damaged", 7)
    annotate(error, "item 2")
    assert error.args == ("damaged\nitem 2", 7)


def test_a_batch_that_cannot_be_collated_is_named(pets):
    with pytest.raises(RuntimeError) as raised:
        list(ft.Loader(ft.ItemDataset(pets, as_tensor), batch_size=4, seed=1))
    text = "".join(traceback.format_exception(raised.type, raised.value, raised.tb))
    assert "fodder: batch 0, items [" in text and "of dataset 'pets'" in text


def as_tensor(view):
    return torch.frombuffer(bytearray(view), dtype=torch.uint8)
