"""The probe: its splits, its regression against scikit-learn, its geometry by hand, and its memory of features."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from pretraining.probe import sets
from pretraining.probe.artifacts import longest_patches
from pretraining.probe.boxes import box_overlap, centered_boxes, coverage, overlap_with_box, read_boxes
from pretraining.probe.features import FeatureStore
from pretraining.probe.linear import Fit, draw, fit_logistic, probe
from pretraining.probe.models import Model, Seen
from pretraining.probe.patches import measure_patches, own_component, resize_grid, shared_component
from pretraining.probe.prompts import class_vectors, measure_prompts, wilson_interval
from pretraining.probe.run import Results
from pretraining.probe.table import Reach


def save_image(path: Path, color: tuple[int, int, int] = (120, 90, 60), size: tuple[int, int] = (12, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """A few images of every set, laid out as the sets are."""
    for wnid in ("n01440764", "n02102040"):
        for index in range(10):
            save_image(tmp_path / "imagenette" / "train" / wnid / f"{wnid}_{index}.JPEG", (index, 20, 200))
        save_image(tmp_path / "imagenette" / "val" / wnid / f"{wnid}_99.JPEG")
    axes = ",".join(sets.BLOOD_AXES)
    for part, names in (("train", "abcd"), ("val", "ef"), ("test", "gh")):
        rows = [
            f"{n}.jpg,{'Basophil' if n in 'aceg' else 'Monocyte'}," + ",".join("yn"[i % 2] for i in range(11))
            for n in names
        ]
        write(tmp_path / "blood" / f"pbc_attr_v1_{part}.csv", f"img_name,label,{axes}\n" + "\n".join(rows))
    for letter, word, count in (("a", "Training", 118), ("b", "Testing", 64)):
        rows = [f"IDRiD_{index:03d},{index % 5},0" for index in range(1, count + 1)]
        table = tmp_path / "idrid" / "grading" / "labels" / f"{letter}. IDRiD_Disease Grading_{word} Labels.csv"
        write(table, "Image name,Retinopathy grade,Risk of macular edema ,,\n" + "\n".join(rows) + "\n,,,,\n")
    write(
        tmp_path / "ham.csv",
        "image_id,lesion_id,dx,split\nI1,L1,nv,train\nI2,L1,nv,train\nI3,L2,mel,val\nI4,L3,mel,test\n",
    )
    (tmp_path / "ham").mkdir()
    cub = tmp_path / "cub"
    write(cub / "classes.txt", "1 001.Crow\n2 002.Wren\n")
    write(cub / "images.txt", "1 001.Crow/a.jpg\n2 001.Crow/b.jpg\n3 002.Wren/c.jpg\n4 002.Wren/d.jpg\n")
    write(cub / "image_class_labels.txt", "1 1\n2 1\n3 2\n4 2\n")
    write(cub / "train_test_split.txt", "1 1\n2 0\n3 1\n4 0\n")
    write(
        cub / "bounding_boxes.txt", "1 0.0 0.0 50.0 50.0\n2 25.0 25.0 50.0 50.0\n3 0 0 100 50\n4 120.0 20.0 60.0 60.0\n"
    )
    write(tmp_path / "sizes.csv", "image_id,width,height\n1,100,100\n2,100,100\n3,100,100\n4,200,100\n")
    for name in ("001.Crow/a", "001.Crow/b", "002.Wren/c", "002.Wren/d"):
        save_image(cub / "images" / f"{name}.jpg")
    write(tmp_path / "unseen.txt", "n01742172\tboa\nn01983481\tlobster\n")
    write(
        tmp_path / "tiny" / "val" / "val_annotations.txt",
        "val_0.JPEG\tn01983481\t0\t0\t1\t1\nval_1.JPEG\tn99999999\t0\t0\t1\t1\nval_2.JPEG\tn01742172\t0\t0\t1\t1\n",
    )
    return {name: tmp_path / name for name in ("imagenette", "blood", "idrid", "ham", "cub", "tiny")} | {
        "ham-split": tmp_path / "ham.csv",
        "cub-sizes": tmp_path / "sizes.csv",
        "unseen-classes": tmp_path / "unseen.txt",
    }


class TestSets:
    def test_every_image_has_one_split(self, places: dict[str, Path]) -> None:
        found = sets.load_sets(places)
        assert set(found) == set(sets.SETS)
        for images in found.values():
            assert len(set(images.files)) == len(images.files) == len(images.split)
            assert set(images.split) <= {"train", "val", "test"}
            assert all(len(question.labels) == len(images.files) for question in images.questions)

    def test_official_splits(self, places: dict[str, Path]) -> None:
        found = sets.load_sets(places)
        blood = found["blood"]
        assert blood.files[0] == "basophil/a.jpg"
        assert list(blood.split) == ["train"] * 4 + ["val"] * 2 + ["test"] * 2
        assert len(blood.questions) == 12
        assert list(found["cub"].split) == ["train", "test", "train", "test"]
        assert list(found["ham"].split) == ["train", "train", "val", "test"]
        assert len(found["imagenette"].where("test")) == 2

    def test_the_repeated_fundus_photograph_stays_in_test_alone(self, places: dict[str, Path]) -> None:
        images = sets.load_sets(places)["idrid"]
        assert [name for name in images.files if "Training" in name and "118" in name] == []
        assert len([name for name in images.files if "Testing" in name and "064" in name]) == 1
        assert len(images.where("train")) == 117

    def test_only_unseen_classes(self, places: dict[str, Path]) -> None:
        images = sets.load_sets(places)["unseen"]
        assert images.files == ("val/images/val_0.JPEG", "val/images/val_2.JPEG")
        assert [images.questions[0].values[label] for label in images.questions[0].labels] == ["n01983481", "n01742172"]

    def test_missing_folders_leave_a_set_out(self, places: dict[str, Path]) -> None:
        del places["ham-split"], places["tiny"]
        assert set(sets.load_sets(places)) == {"imagenette", "blood", "idrid", "cub"}

    def test_bad_words_are_explained(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="Did you mean 'imagenette'"):
            sets.parse_places([f"imagenete={tmp_path}"])
        with pytest.raises(UserError, match="NAME=PATH"):
            sets.parse_places([f"blood={tmp_path / 'none'}"])

    def test_draws_are_disjoint_stratified_and_seeded(self, places: dict[str, Path]) -> None:
        images = sets.load_sets(places)["imagenette"]
        train, validation = draw(images, 0)
        assert not set(train) & set(validation)
        assert set(train) | set(validation) == set(images.where("train"))
        assert sorted(images.questions[0].labels[validation]) == [0, 1]
        assert list(draw(images, 0)[1]) == list(validation)
        assert any(list(draw(images, seed)[1]) != list(validation) for seed in (1, 2, 3))

    def test_an_official_validation_split_is_kept(self, places: dict[str, Path]) -> None:
        images = sets.load_sets(places)["blood"]
        assert list(draw(images, 0)[1]) == [4, 5]


def toy(generator: torch.Generator, n: int = 150, width: int = 6, classes: int = 4) -> tuple[Tensor, Tensor]:
    labels = torch.arange(n) % classes
    centers = torch.randn(classes, width, generator=generator)
    return centers[labels] + torch.randn(n, width, generator=generator), labels


class TestRegression:
    @pytest.mark.parametrize("strength", [0.3, 0.01])
    def test_same_optimum_as_scikit_learn(self, strength: float) -> None:
        features, labels = toy(torch.Generator().manual_seed(0))
        fit = fit_logistic(features, [labels], [4], strength)
        theirs = LogisticRegression(C=1 / (strength * len(labels)), tol=1e-10, max_iter=10_000)
        theirs.fit(features.double().numpy(), labels.numpy())
        np.testing.assert_allclose(fit.weights.numpy(), theirs.coef_, atol=2e-3)
        ours = fit.biases - fit.biases.mean()  # a common shift of all biases changes nothing
        np.testing.assert_allclose(ours.numpy(), theirs.intercept_ - theirs.intercept_.mean(), atol=2e-3)

    def test_questions_do_not_touch_each_other_nor_does_the_start(self) -> None:
        generator = torch.Generator().manual_seed(1)
        features, labels = toy(generator)
        other = torch.randint(0, 2, (len(labels),), generator=generator)
        alone = fit_logistic(features, [labels], [4], 0.1)
        both = fit_logistic(features, [other, labels], [2, 4], 0.1)
        torch.testing.assert_close(both.weights[2:], alone.weights, atol=2e-3, rtol=0)
        far = fit_logistic(features, [labels], [4], 0.1, Fit(torch.ones(4, 6), torch.ones(4)))
        torch.testing.assert_close(far.weights, alone.weights, atol=2e-3, rtol=0)

    def test_probe_finds_what_is_there_and_not_what_is_not(self) -> None:
        generator = torch.Generator().manual_seed(2)
        features, labels = toy(generator, n=900, width=8, classes=3)
        noise = torch.randint(0, 2, (900,), generator=generator).numpy()
        split = np.array((["train"] * 3 + ["val"] * 3 + ["test"] * 3) * 100)
        asked = (sets.Question("class", ("a", "b", "c"), labels.numpy()), sets.Question("noise", ("no", "yes"), noise))
        images = sets.ImageSet("toy", Path(), tuple(map(str, range(900))), split, asked)
        found = probe(features * 100 + 7, images)  # the probe standardizes: scale and offset play no part
        assert found["class"]["accuracy"]["mean"] > 0.7
        assert abs(found["attributes"]["balanced_accuracy"]["mean"] - 0.5) < 0.1
        assert found["images"] == {"train": 300, "val": 300, "test": 300}
        again = probe(features, images)
        assert found["class"]["accuracy"]["seeds"] == pytest.approx(again["class"]["accuracy"]["seeds"], abs=0.011)


class TestForeground:
    def make(self, side: int = 14) -> tuple[Tensor, Tensor]:
        """Tokens of an object in the middle and of its background, in a random basis, and the object's mask."""
        generator = torch.Generator().manual_seed(0)
        mask = torch.zeros(3, side, side, dtype=torch.bool)
        mask[0, 4:9, 5:10], mask[1, 2:6, 7:12], mask[2, 6:12, 3:8] = True, True, True
        direction, offset = torch.randn(32, generator=generator), torch.randn(32, generator=generator) * 20
        noise = 0.2 * torch.randn(3, side, side, 32, generator=generator)
        return mask.unsqueeze(-1) * direction * 3 + offset + noise, mask

    def test_the_object_is_found_whatever_the_sign(self) -> None:
        tokens, mask = self.make()
        for grids in (tokens, -tokens):
            assert torch.equal(own_component(grids) > 0, mask)
            assert torch.equal(shared_component(grids) > 0, mask)

    def test_scores_are_those_of_an_svd(self) -> None:
        tokens, _ = self.make(14)
        flat = tokens[0].flatten(0, 1).double()
        left, sigma, _ = torch.linalg.svd(flat - flat.mean(0), full_matrices=False)
        expected = (left[:, 0] * sigma[0]).abs().view(14, 14)
        torch.testing.assert_close(own_component(tokens[:1])[0].abs(), expected)

    def test_grids_are_resized_both_ways(self) -> None:
        ramp = torch.linspace(0, 1, 7).view(1, 7, 1, 1).expand(1, 7, 7, 2)
        assert resize_grid(ramp).shape == (1, 14, 14, 2)
        assert resize_grid(torch.rand(2, 64, 64, 3)).shape == (2, 14, 14, 3)


class TestBoxes:
    def test_coverage_and_overlap_by_hand(self) -> None:
        # From 1/8 to 5/8 across and 0 to 1/2 down, on 4 × 4 cells: half a cell, a whole one, half a cell; two rows.
        covered = coverage(np.array([[0.125, 0.0, 0.625, 0.5]]), (4, 4))[0]
        expected = torch.zeros(4, 4, dtype=torch.float64)
        expected[:2] = torch.tensor([0.5, 1.0, 0.5, 0.0], dtype=torch.float64)
        torch.testing.assert_close(covered, expected)
        mask = torch.zeros(1, 4, 4, dtype=torch.bool)
        mask[0, :2, 1:3] = True  # 4 cells, of which 3 lie in the box of 4 cells: 3 / (4 + 4 - 3)
        assert overlap_with_box(mask, covered[None]).item() == pytest.approx(3 / 5)
        assert overlap_with_box(torch.zeros_like(mask), covered[None]).item() == 0

    def test_overlap_of_two_boxes(self) -> None:
        first, second = np.array([[0.0, 0.0, 0.5, 0.5]]), np.array([[0.25, 0.25, 0.75, 0.75]])
        assert box_overlap(first, second)[0] == pytest.approx(0.0625 / (0.25 + 0.25 - 0.0625))
        assert box_overlap(first, first)[0] == pytest.approx(1)

    def test_boxes_are_shares_of_the_original_image(self, places: dict[str, Path]) -> None:
        boxes = read_boxes(places)
        np.testing.assert_allclose(boxes[3], [0.6, 0.2, 0.9, 0.8])
        np.testing.assert_allclose(centered_boxes(boxes, [0, 2])[1], [0.125, 0.25, 0.875, 0.75])


class Color(Model):
    """A network of one number: the image's mean color, scaled."""

    def __init__(self, name: str, scale: float, side: int = 4) -> None:
        network = nn.Linear(1, 1)
        nn.init.constant_(network.weight, scale)
        nn.init.zeros_(network.bias)
        super().__init__(name, network, side)
        self.scale, self.calls = scale, 0

    def see(self, images: Tensor) -> Seen:
        self.calls += 1
        pixels = images.float() * self.scale / 255
        return Seen(pixels.mean((2, 3)), pixels.permute(0, 2, 3, 1))


class TestFeatures:
    def test_kept_until_the_weights_or_the_images_change(self, places: dict[str, Path], tmp_path: Path) -> None:
        images = sets.load_sets(places)["imagenette"]
        store, first, second = FeatureStore(tmp_path / "kept"), Color("first", 1.0), Color("second", 2.0)
        assert store.extract(images, [first, second], batch=8, quiet=True) == ["first", "second"]
        kept = store.load(images, first)
        assert kept.shape == (22, 3)
        np.testing.assert_allclose(kept[:10, 0] * 255, range(10), atol=3)  # JPEG's rounding; the order is the files'
        assert store.extract(images, [first, second], quiet=True) == []
        assert store.extract(images, [Color("first", 1.5), second], quiet=True) == ["first"]
        torch.testing.assert_close(store.load(images, first), kept * 1.5, atol=1e-2, rtol=0)
        save_image(images.root / images.files[0], size=(40, 40))
        assert store.extract(images, [second], quiet=True) == ["second"]

    def test_an_interrupted_pass_leaves_nothing_behind(self, places: dict[str, Path], tmp_path: Path) -> None:
        images = sets.load_sets(places)["imagenette"]
        store, model = FeatureStore(tmp_path / "kept"), Color("first", 1.0)
        (images.root / images.files[-1]).write_bytes(b"no image")
        with pytest.raises(UserError):
            store.extract(images, [model], quiet=True)
        assert not store.has(images, model)

    def test_overflow_is_refused(self, places: dict[str, Path], tmp_path: Path) -> None:
        images = sets.load_sets(places)["imagenette"]
        with pytest.raises(UserError, match="half precision"):
            FeatureStore(tmp_path).extract(images, [Color("huge", 1e9)], quiet=True)

    def test_patches_of_a_set(self, places: dict[str, Path]) -> None:
        images = sets.load_sets(places)["cub"]
        for index, name in enumerate(images.files):  # a bright square where the box is
            picture = np.zeros((56, 56, 3), dtype=np.uint8)
            left, top, right, bottom = (read_boxes(places)[index] * 56).round().astype(int)
            picture[top:bottom, left:right] = 255
            Image.fromarray(picture).save(images.root / name, quality=95)
        found = measure_patches(Color("colour", 1.0, 14), images, places, count=2, quiet=True)
        assert (found["images"], found["native_grid"], found["width"]) == (2, [14, 14], 3)
        assert found["rank"]["effective"] == pytest.approx(1, abs=0.05)  # gray: one direction
        assert found["own"]["mean"] > 0.7  # but for cells that the box cuts
        assert found["shared"]["mean"] > 0.7
        assert found["whole_image"]["mean"] == pytest.approx((0.25 + 0.18) / 2)
        # The mean training box is 0.75 × 0.5: with the first box it shares 0.25 of 0.375, with the second 0.275 × 0.5.
        assert found["centered_box"]["mean"] == pytest.approx((0.25 / 0.375 + 0.1375 / (0.375 + 0.18 - 0.1375)) / 2)


def probed(mean: float) -> dict[str, object]:
    return {name: {"mean": mean, "sd": 0.01} for name in ("accuracy", "balanced_accuracy")}


class TestTable:
    def test_verdicts_follow_the_numbers(self) -> None:
        results: dict[str, dict[str, object]] = {
            "probes": {
                "imagenette/builtin/vit": {"class": probed(0.90)},
                "imagenette/efficientnet_lite0": {"class": probed(0.95)},
                "blood/builtin/vit": {"class": probed(0.98), "attributes": probed(0.80)},
                "blood/efficientnet_lite0": {"class": probed(0.97), "attributes": probed(0.81)},
            },
            "prompts": {"imagenette": {"accuracy": 0.79, "interval": [0.78, 0.8], "chance": 0.1}},
            "patches": {},
        }
        rows = Reach(results, None).markdown().splitlines()[2:]
        verdicts = [row.split(" | ")[3] for row in rows]
        assert verdicts == ["**not reached**", "reached", "reached", *["**not reached**"] * 3]  # 0.90 / 0.95 is 94.7 %
        assert "94.7%" in rows[0]

    def test_measured_once_until_the_key_changes(self, tmp_path: Path) -> None:
        calls: list[int] = []

        def work() -> dict[str, int]:
            calls.append(1)
            return {"value": len(calls)}

        for key, fresh, expected in (("a", False, 1), ("a", False, 1), ("b", False, 2), ("b", True, 3)):
            results = Results(tmp_path / "results.json", {}, fresh=fresh)
            results.measure("patches", "one", key, work)
            assert results.values["patches"]["one"]["value"] == expected


class Letters:
    """A text encoder that knows two words."""

    name, width = "letters", 2

    def embed(self, texts: Sequence[str]) -> Tensor:
        return torch.tensor([[1.0, 0.0] if "tench" in text else [0.0, 1.0] for text in texts])


class TestPrompts:
    def test_names_decide(self, places: dict[str, Path]) -> None:
        images = sets.load_sets(places)["imagenette"]
        labels = images.questions[0].labels
        right = torch.eye(2)[torch.from_numpy(labels)]
        found = measure_prompts(right, images, Letters())
        assert (found["accuracy"], found["images"], found["chance"]) == (1.0, 2, 0.5)
        assert measure_prompts(right.flip(1), images, Letters())["accuracy"] == 0.0

    def test_vectors_are_unit(self) -> None:
        vectors = class_vectors(["tench", "spaniel"], Letters())
        torch.testing.assert_close(vectors, torch.eye(2))

    def test_interval_by_hand(self) -> None:
        low, high = wilson_interval(50, 100, z=2.0)
        # middle (0.5 + 2/100) / 1.04 = 0.5, half 2 / 1.04 · √(0.25/100 + 4/40000)
        half = 2 / 1.04 * math.sqrt(0.0026)
        assert (low, high) == pytest.approx((0.5 - half, 0.5 + half))


def test_patches_that_stand_out() -> None:
    found = longest_patches(torch.tensor([[1.0, 1.0, 1.0, 1.0, 5.0], [2.0, 2.0, 2.0, 3.0, 4.0]]))
    assert found["longest_over_median_mean"] == pytest.approx((5 + 2) / 2)
    assert found["longest_over_median_largest"] == 5
    assert found["share_above_twice_the_median"] == pytest.approx(0.1)  # exactly twice is not above
