"""Which images the student sees, and that they come back as they were packed."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.sources.blood_cells import BloodCells
from pretraining.images import pack as packing
from pretraining.images.collect import Listed, Listing, list_blood, list_imagenette, list_samples, list_tiny
from pretraining.images.duplicates import BROAD, DETAIL, FINE, Fingerprints, find_copies, fingerprint_images
from pretraining.images.shards import read_source
from pretraining.images.sheets import cut, lay_out, read_square
from pretraining.images.unseen import FILE, draw_unseen, read_unseen
from pretraining.images.writing import Form, in_packing_order, write_shards

Floats = npt.NDArray[Any]
UNSEEN = sorted(read_unseen())
SEEN = ["n01443537", "n02124075"]
IMAGENETTE = "n01440764"
FORM = Form(side=32, columns=4, quality=90)


def photo(seed: int, width: int = 64, height: int = 64) -> Image.Image:
    """Soft colored blotches with some finer detail: what a photograph looks like to a codec and a fingerprint."""
    rng = np.random.default_rng(seed)
    broad, fine = (
        Image.fromarray(rng.integers(0, 256, (n, n, 3), np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
        for n in (5, 14)
    )
    return Image.blend(broad, fine, 0.35)


def save(image: Image.Image, path: Path, quality: int = 92) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, "JPEG", quality=quality)
    return path


def folder_of_photos(folder: Path, count: int) -> list[Listed]:
    paths = [save(photo(i, 32, 32), folder / f"{i}.jpg") for i in range(count)]
    return [Listed(path, path.name, f"class-{i % 3}") for i, path in enumerate(paths)]


def blood_tables(folder: Path, splits: dict[str, list[str]]) -> None:
    groups = ConceptSet.load("blood-cells").groups
    for split, names in splits.items():
        rows = [{"img_name": n, "label": "Basophil", **{g.column: g.values[-1] for g in groups}} for n in names]
        for position, name in enumerate(names):
            save(photo(6000 + 100 * len(split) + position), folder / "basophil" / name)
        with (folder / f"pbc_attr_v1_{split}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, ["img_name", "label", *(g.column for g in groups), "path"])
            writer.writeheader()
            writer.writerows(row | {"path": "elsewhere/" + row["img_name"]} for row in rows)


def detail_of(prints: Fingerprints, i: int) -> Floats:
    gray = prints.thumbnails[i].astype(float)
    around = np.pad(gray, 2, mode="edge")
    mean = [[around[y : y + 5, x : x + 5].mean() for x in range(16)] for y in range(16)]
    return np.asarray(np.clip(gray - mean, -8, 8))


def broad_of(prints: Fingerprints, i: int) -> Floats:
    gray = prints.thumbnails[i].astype(float)
    return np.asarray(gray - gray.mean())


def fine_of(prints: Fingerprints, i: int) -> Floats:
    return np.asarray(prints.fine[i], float)


def correlation(a: Floats, b: Floats) -> float:
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Small copies of all four sources in their published layouts, and one further evaluation set."""
    seed = 0
    for wnid in [*SEEN, *UNSEEN]:
        for i in range(3):
            seed += 1
            save(photo(seed), tmp_path / "tiny/train" / wnid / "images" / f"{wnid}_{i}.JPEG")
    save(photo(1001), tmp_path / "tiny/val/images/val_0.JPEG")
    for i in range(4):
        save(photo(2000 + i, 80, 80), tmp_path / "imagenette/train" / IMAGENETTE / f"{i}.JPEG")
    save(photo(3000, 80, 80), tmp_path / "imagenette/val" / IMAGENETTE / "9.JPEG")
    for position, wnid in enumerate([SEEN[0], UNSEEN[0], IMAGENETTE]):
        save(photo(4000 + position, 90, 70), tmp_path / "samples" / f"{wnid}_some_name.JPEG")
    blood_tables(tmp_path / "blood", {"train": ["BA_1.jpg", "BA_2.jpg"], "val": ["BA_3.jpg"], "test": ["BA_4.jpg"]})
    save(photo(5000, 100, 75), tmp_path / "birds/images/a.jpg")
    photo(5001).save(tmp_path / "birds/mask.png")
    return tmp_path


def run_pack(world: Path, out: str = "out", *more: str) -> int:
    named = [word for name in ("tiny", "imagenette", "samples", "blood") for word in (f"--{name}", str(world / name))]
    return packing.main([*named, "--evaluation", str(world / "birds"), "--out", str(world / out), *more])


class TestUnseenClasses:
    def test_the_committed_draw_has_twenty_classes_with_names(self) -> None:
        assert len(UNSEEN) == 20
        assert all(name and wnid.startswith("n") and len(wnid) == 9 for wnid, name in read_unseen().items())
        assert IMAGENETTE not in UNSEEN

    def test_the_draw_ignores_order_and_never_takes_what_is_taken(self) -> None:
        wnids = [f"n{i:08d}" for i in range(60)]
        drawn = draw_unseen(wnids, wnids[:30])
        assert drawn == draw_unseen(wnids[::-1], wnids[:30])
        assert set(drawn) <= set(wnids[30:])
        assert len(drawn) == 20
        assert drawn != draw_unseen(wnids, wnids[:30], seed=1)

    def test_too_few_classes_or_a_broken_file_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="at least 20"):
            draw_unseen(["a"], [])
        (tmp_path / "list.txt").write_text(FILE.read_text().replace("\t", " "))
        with pytest.raises(UserError, match="TAB"):
            read_unseen(tmp_path / "list.txt")


class TestCollect:
    def test_unseen_classes_are_in_no_list(self, world: Path) -> None:
        tiny, samples = list_tiny(world / "tiny", UNSEEN), list_samples(world / "samples", UNSEEN)
        assert {image.label for image in tiny.images} == set(SEEN)
        assert [image.label for image in samples.images] == [IMAGENETTE, SEEN[0]]
        assert (tiny.unseen, samples.unseen) == (60, 1)

    def test_only_training_splits_are_listed(self, world: Path) -> None:
        names = [i.name for lister in (list_tiny, list_imagenette) for i in lister(world / lister.__name__[5:]).images]
        assert len(names) == 66 + 4
        assert all(name.startswith("train/") for name in names)

    def test_blood_cells_keep_class_and_attributes(self, world: Path) -> None:
        blood = list_blood(world / "blood")
        groups = ConceptSet.load("blood-cells").groups
        assert [image.name for image in blood.images] == ["basophil/BA_1.jpg", "basophil/BA_2.jpg"]
        assert blood.images[0].label == "Basophil"
        assert blood.images[0].attributes == tuple(len(group.values) - 1 for group in groups)
        assert list(blood.axes) == [group.name for group in groups]
        assert len(blood.axes) == 11

    def test_a_training_cell_that_is_also_held_out_is_refused(self, tmp_path: Path) -> None:
        blood_tables(tmp_path, {"train": ["BA_1.jpg", "BA_3.jpg"], "val": ["BA_3.jpg"], "test": ["BA_4.jpg"]})
        with pytest.raises(UserError, match=r"1 training images .*'BA_3.jpg'"):
            list_blood(tmp_path)

    def test_a_training_cell_of_the_built_in_test_split_is_refused(self, tmp_path: Path) -> None:
        builtin = BloodCells().examples
        assert builtin.split is not None
        name = builtin.ids[builtin.split.index("test")]
        blood_tables(tmp_path, {"train": [name], "val": ["BA_3.jpg"], "test": ["BA_4.jpg"]})
        with pytest.raises(UserError, match=name):
            list_blood(tmp_path)


class TestDuplicates:
    def test_copies_are_found_and_other_images_are_not(self, tmp_path: Path) -> None:
        originals = [save(photo(i, 160, 120), tmp_path / f"original-{i}.jpg") for i in range(8)]
        copies = [
            save(photo(2, 160, 120).resize((64, 64)), tmp_path / "squashed.jpg", 60),
            save(photo(5, 160, 120).crop((20, 0, 140, 120)).resize((64, 64)), tmp_path / "cropped.jpg", 60),
            save(photo(7, 160, 120).resize((320, 240)).point(lambda v: int(0.9 * v)), tmp_path / "large.jpg", 75),
        ]
        others = [save(photo(100 + i), tmp_path / f"other-{i}.jpg") for i in range(20)]
        found = find_copies(fingerprint_images([*others, *copies], workers=2), fingerprint_images(originals))
        assert found.train.tolist() == [20, 21, 22]
        assert found.evaluation.tolist() == [2, 5, 7]

    def test_agrees_with_all_pairs_one_by_one(self, tmp_path: Path) -> None:
        paths = [save(photo(i % 9, 60 + 3 * i, 60), tmp_path / f"{i}.jpg", 70) for i in range(18)]
        train, evaluation = fingerprint_images(paths[9:]), fingerprint_images(paths[:9])
        expected: dict[int, tuple[float, int]] = {}
        for i, image in enumerate(train.image):
            for j, match in enumerate(evaluation.image):
                likeness, broad, fine = (
                    correlation(measure(train, i), measure(evaluation, j)) for measure in (detail_of, broad_of, fine_of)
                )
                if likeness >= DETAIL and broad >= BROAD and fine >= FINE:
                    expected[image] = max(expected.get(image, (0.0, -1)), (likeness, match))
        found = find_copies(train, evaluation)
        assert len(expected) > 3
        assert found.train.tolist() == sorted(expected)
        assert found.evaluation.tolist() == [expected[image][1] for image in sorted(expected)]
        np.testing.assert_allclose(found.likeness, [expected[image][0] for image in sorted(expected)], atol=1e-5)

    def test_flat_images_resemble_nothing(self, tmp_path: Path) -> None:
        flat = [save(Image.new("RGB", (64, 64), "gray"), tmp_path / f"{i}.jpg") for i in range(2)]
        assert not len(find_copies(fingerprint_images(flat[:1]), fingerprint_images(flat[1:])).train)
        assert not len(find_copies(fingerprint_images([]), fingerprint_images(flat)).train)


class TestSheets:
    def test_cut_undoes_lay_out(self) -> None:
        tiles = np.random.default_rng(0).integers(0, 256, (7, 8, 8, 3), np.uint8)
        sheet = lay_out(list(tiles), columns=3)
        assert sheet.shape == (24, 24, 3)
        assert (sheet[8:16, 16:24] == tiles[5]).all()
        assert (cut(sheet, 8, 7) == tiles.transpose(0, 3, 1, 2)).all()

    def test_the_center_of_a_wide_image_is_kept(self, tmp_path: Path) -> None:
        wide = np.zeros((32, 96, 3), np.uint8)
        wide[:, 32:64] = 200
        Image.fromarray(wide).save(tmp_path / "wide.png")
        square = read_square(tmp_path / "wide.png", 32)
        assert (square[:, 2:-2] == 200).all()

    def test_a_broken_image_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "broken.jpg").write_bytes(b"not a photograph")
        for read in (lambda path: read_square(path, 8), lambda path: fingerprint_images([path])):
            with pytest.raises(UserError, match=r"broken\.jpg"):
                read(tmp_path / "broken.jpg")


class TestShards:
    def test_round_trip(self, tmp_path: Path) -> None:
        images = folder_of_photos(tmp_path / "photos", 37)
        shards = write_shards(Listing("tiny", images), tmp_path / "out", FORM, limit=10**6, workers=2)
        back = read_source(shards, workers=2)
        expected = in_packing_order(images)
        assert back.names == [image.name for image in expected]
        assert back.labels == [image.label for image in expected]
        assert back.names != [image.name for image in images], "classes must be mixed"
        assert back.pixels.shape == (37, 3, 32, 32)
        assert back.pixels.dtype == torch.uint8
        assert back.attributes is None
        originals = np.stack([np.asarray(Image.open(image.path)) for image in expected]).transpose(0, 3, 1, 2)
        error = np.abs(back.pixels.numpy().astype(int) - originals).mean((1, 2, 3))
        assert error.max() < 6, "each image where its name says, and close to the original"

    def test_attributes_come_back(self, world: Path) -> None:
        blood = list_blood(world / "blood")
        back = read_source(write_shards(blood, world / "out", FORM, limit=10**6))
        assert back.attributes is not None
        assert back.attributes.tolist() == [list(i.attributes) for i in in_packing_order(blood.images)]
        assert back.axes == blood.axes

    def test_the_limit_splits_and_any_shard_can_be_read(self, tmp_path: Path) -> None:
        images = folder_of_photos(tmp_path / "photos", 50)
        whole = write_shards(Listing("tiny", images), tmp_path / "whole", FORM, limit=10**6)
        limit = 2 * sum(f.stat().st_size for f in whole[0].glob("*.webp")) // 3
        shards = write_shards(Listing("tiny", images), tmp_path / "parts", FORM, limit=limit)
        assert [shard.name for shard in shards] == ["tiny-0", "tiny-1"]
        assert all(sum(f.stat().st_size for f in shard.glob("*.webp")) <= limit for shard in shards)
        parts, one = read_source(shards[::-1]), read_source(whole)
        assert parts.names == one.names
        assert torch.equal(parts.pixels, one.pixels)
        assert read_source(shards[1:]).names == one.names[len(read_source(shards[:1])) :]

    def test_a_second_run_keeps_what_is_there_and_makes_what_is_not(self, tmp_path: Path) -> None:
        listing = Listing("tiny", folder_of_photos(tmp_path / "photos", 50))
        shards = write_shards(listing, tmp_path / "out", FORM, limit=8000)
        assert len(shards) > 2
        before = {f: f.read_bytes() for shard in shards for f in shard.iterdir()}
        for file in shards[-1].iterdir():
            file.unlink()
        shards[-1].rmdir()
        times = [(shard / "index.json").stat().st_mtime_ns for shard in shards[:-1]]
        assert write_shards(listing, tmp_path / "out", FORM, limit=8000) == shards
        assert {f: f.read_bytes() for shard in shards for f in shard.iterdir()} == before
        assert [(shard / "index.json").stat().st_mtime_ns for shard in shards[:-1]] == times

    def test_shards_of_another_packing_are_replaced(self, tmp_path: Path) -> None:
        images = folder_of_photos(tmp_path / "photos", 50)
        write_shards(Listing("tiny", images), tmp_path / "out", FORM, limit=8000)
        write_shards(Listing("tiny", images[:3]), tmp_path / "out", FORM, limit=8000)
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["tiny-0"]
        assert len(read_source([tmp_path / "out" / "tiny-0"])) == 3

    def test_damage_is_refused(self, tmp_path: Path) -> None:
        images = folder_of_photos(tmp_path / "photos", 20)
        (shard,) = write_shards(Listing("tiny", images), tmp_path / "out", FORM, limit=10**6)
        sheet = shard / "001.webp"
        data = bytearray(sheet.read_bytes())
        data[len(data) // 2] ^= 1
        sheet.write_bytes(data)
        with pytest.raises(UserError, match=r"001\.webp.*SHA-256"):
            read_source([shard])
        sheet.unlink()
        with pytest.raises(UserError, match=r"001\.webp.*missing"):
            read_source([shard])

    def test_shards_that_do_not_belong_together_are_refused(self, tmp_path: Path) -> None:
        images = folder_of_photos(tmp_path / "photos", 4)
        (a,) = write_shards(Listing("tiny", images), tmp_path / "out", FORM, limit=10**6)
        (b,) = write_shards(Listing("samples", images), tmp_path / "out", FORM, limit=10**6)
        with pytest.raises(UserError, match="different sources"):
            read_source([a, b])
        with pytest.raises(UserError, match="twice"):
            read_source([a, a])
        with pytest.raises(UserError, match="at least one"):
            read_source([])


class TestPack:
    def test_everything_end_to_end(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        wnid = SEEN[0]
        # Copies of evaluation images under training names: of Tiny-ImageNet's val, of an unseen class, and of a bird.
        copies = [photo(1001), photo(7), photo(5000, 100, 75).resize((64, 64))]
        for position, image in enumerate(copies):
            save(image, world / "tiny/train" / wnid / "images" / f"{wnid}_9{position}.JPEG", 60)
        assert run_pack(world) == 0
        assert "tiny: 6 images" in capsys.readouterr().out

        manifest = json.loads((world / "out/manifest.json").read_text())
        tiny = manifest["sources"]["tiny"]
        assert tiny["left_out_as_unseen_class"] == 60
        assert (tiny["listed"], tiny["kept"]) == (9, 6)
        assert tiny["dropped_as_copy_of"] == {"birds": 1, "tiny-unseen": 1, "tiny-val": 1}
        assert {name: entry["kept"] for name, entry in manifest["sources"].items()} == {
            "tiny": 6,
            "imagenette": 4,
            "samples": 2,
            "blood": 2,
        }
        assert manifest["evaluation"]["birds"] == 1, "a mask is not an image"
        dropped = json.loads((world / "out/dropped.json").read_text())
        assert [Path(entry["name"]).stem[-2:] for entry in dropped["tiny"]] == ["90", "91", "92"]

        packed = {name: read_source([world / "out" / f"{name}-0"]) for name in manifest["sources"]}
        for images in packed.values():
            assert not set(images.labels) & set(UNSEEN)
            assert all("val" not in name for name in images.names)
        assert packed["tiny"].pixels.shape[-1] == 64
        assert packed["samples"].pixels.shape[-1] == 144

    def test_bad_folders_are_answered_without_a_traceback(
        self, world: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (world / "imagenette").rename(world / "elsewhere")
        assert run_pack(world) == 2
        assert "imagenette" in capsys.readouterr().err
        (world / "elsewhere").rename(world / "imagenette")
        (world / "birds/images/a.jpg").unlink()
        assert run_pack(world) == 2
        assert "birds: expected JPEG" in capsys.readouterr().err
        (world / "blood/pbc_attr_v1_val.csv").unlink()
        assert run_pack(world) == 2
        assert "pbc_attr_v1_val.csv" in capsys.readouterr().err


def test_encoded_pixels_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    listing = Listing("tiny", folder_of_photos(tmp_path / "photos", 40))
    one = write_shards(listing, tmp_path / "one", FORM, limit=10**6, workers=1)
    many = write_shards(listing, tmp_path / "many", FORM, limit=10**6, workers=4)
    for file in sorted(one[0].iterdir()):
        assert (many[0] / file.name).read_bytes() == file.read_bytes()
