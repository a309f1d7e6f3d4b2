"""A finished run's maps judged by known regions: numbers against plain loops, other data, bad input."""

import csv
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import conceptlens as cl
from conceptlens import api
from conceptlens.cli import main
from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import parse_yaml, read_json
from conceptlens.data.images.read import resize_square
from conceptlens.data.regions.regions import read_regions
from conceptlens.data.sources.shapes import Shapes
from conceptlens.data.splits.splits import Splits
from conceptlens.evaluation.localization import MEASURES, chunks
from conceptlens.evaluation.localization.concept_parts import concept_parts
from conceptlens.evaluation.localization.localize import localize_run
from conceptlens.explanations.maps.concept_maps import BatchMaps, concept_maps
from conceptlens.methods.contract import Pipeline
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.saved import load_pipeline
from tests import ROOT
from tests.in_process import use_this_process
from tests.own_data import OwnData, make_own_data
from tests.training.test_processes import numbers
from tests.training.tiny import tiny

Refuse = Callable[..., str]
BLIND = (
    "uniform",
    "center_prior",
    "central_cell",
    "mean_region",
    "mean_cell",
    "darkness",
    "color_distance",
    "token_pca",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cl.train(tiny(tmp_path_factory.mktemp("slots") / "run", training__epochs=1), quiet=True).path


@pytest.fixture(scope="module")
def found(run: Path) -> dict[str, Any]:
    result = api.localize(run)
    assert result.written_to == run / "localization.json"
    assert "every concept's map against the object" in result.text()
    return dict(read_json(result.written_to))


def test_energy_of_the_own_map_as_a_plain_loop(run: Path, found: dict[str, Any]) -> None:
    pipeline, card, concepts = load_pipeline(run)
    source = Shapes(load_recipe(run / "recipe.yaml").data.shapes, concepts)
    where = run / "splits.json"
    indices = Splits.from_json(read_json(where), source.examples.ids, where=str(where))["test"].tolist()
    slot = pipeline.model.concept_slot.tolist()
    energy: dict[str, list[list[float]]] = {"object": [[] for _ in slot], "part": [[] for _ in slot]}
    for index in indices:
        pixels = torch.from_numpy(resize_square(source.read(index), card.image_size, card.fit))[None]
        with torch.no_grad():
            attention = pipeline(pixels).attention[0]
        masks = source.annotation(index).masks
        for k, concept in enumerate(concepts.concepts):
            fine = np.kron(attention[slot[k]].reshape(found["grid"]).numpy(), np.ones((8, 8)))
            for target, name in (("object", "object"), ("part", concept.part)):
                if name is not None and name in masks:
                    energy[target][k].append(float(fine[masks[name]].sum() / fine.sum()))
    for target in ("object", "part"):
        means = [np.mean(values) for values in energy[target] if values]
        assert found["targets"][target]["maps"]["own"]["energy"]["value"] == pytest.approx(np.mean(means), abs=1e-4)
        first = found["targets"][target]["by_concept"][concepts.names[0]]["own"]["energy"]
        assert first == pytest.approx(np.mean(energy[target][0]), abs=1e-4)


def test_what_the_file_holds(found: dict[str, Any]) -> None:
    assert (found["split"], found["images"], found["where"]) == ("test", 23, "visible")
    assert set(found["targets"]) == {"object", "part"}
    whole = found["targets"]["object"]
    assert set(whole["maps"]) == {"own", "gradcam", *BLIND, "perfect"}
    uniform = whole["maps"]["uniform"]
    assert uniform["lift"]["value"] == pytest.approx(1, abs=1e-5)
    assert uniform["energy"]["value"] == pytest.approx(uniform["share"]["value"], abs=1e-6)
    low, high = whole["maps"]["own"]["energy"]["interval"]
    assert low < whole["maps"]["own"]["energy"]["value"] < high
    part = found["targets"]["part"]
    assert set(part["parts"]) == {"tail", "legs", "wing", "antennae", "body", "head"}
    assert part["parts"]["wing"]["images"] < part["parts"]["head"]["images"] == 23
    assert part["maps"]["perfect"]["energy"]["value"] > part["maps"]["mean_region"]["energy"]["value"]
    assert found["concept_part"]["head colour: red"] == "head"
    assert found["center_prior"]["fitted_on"] == "train"
    for pair in ("own - uniform", "own - center_prior", "own - mean_region", "gradcam - center_prior", "own - gradcam"):
        ours, theirs = pair.split(" - ")
        expected = whole["maps"][ours]["energy"]["value"] - whole["maps"][theirs]["energy"]["value"]
        assert whole["against"][pair]["energy"]["value"] == pytest.approx(expected, abs=1e-9)


def test_a_map_that_points_at_its_part_is_found_to(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps planted on the head: concepts of the head score as well as can be, all others as badly."""
    _, card, concepts = load_pipeline(run)
    source = Shapes(load_recipe(run / "recipe.yaml").data.shapes, concepts)
    by_pixels = {
        resize_square(source.read(index), card.image_size, card.fit).tobytes(): index for index in range(len(source))
    }

    def planted(pipeline: Pipeline, images: torch.Tensor, kinds: object) -> BatchMaps:
        real = concept_maps(pipeline, images)
        heads = [source.annotation(by_pixels[image.numpy().tobytes()]).masks["head"] for image in images]
        cells = torch.from_numpy(np.stack(heads)).float().view(-1, 4, 8, 4, 8).mean((2, 4)).flatten(1)
        return replace(real, maps={**real.maps, "own": cells[:, None].expand(-1, len(concepts), -1)})

    monkeypatch.setattr("conceptlens.evaluation.localization.map_measures.concept_maps", planted)
    result = api.localize(run, out=tmp_path / "planted.json").to_dict()
    parts = result["targets"]["part"]["parts"]
    head, tail = parts["head"]["maps"], parts["tail"]["maps"]
    for key in ("energy", "pointing", "distance_patches", "iou"):
        assert head["own"][key]["value"] == pytest.approx(head["perfect"][key]["value"], abs=1e-6)
    assert head["own"]["pointing_cells"]["value"] == 1
    assert tail["own"]["energy"]["value"] < tail["uniform"]["energy"]["value"]


def test_a_reader_of_the_class_token_is_judged_by_gradcam_alone(tmp_path: Path) -> None:
    recipe = tiny(
        tmp_path / "run",
        training__epochs=1,
        method={"name": "ivq-cbm", "aggregate": "cls"},
        regularizer={"name": "none"},
    )
    result = api.localize(cl.train(recipe, quiet=True).path, split="val", where="present", sigma=0.2, n=9)
    assert result.to_dict()["maps"]["own"] is None
    assert "own" not in result.to_dict()["targets"]["object"]["maps"]
    assert result.to_dict()["images"] == 9
    assert set(result.to_dict()["center_prior"]["sigma"].values()) == {0.2}
    assert "judged by Grad-CAM alone" in result.text()
    body = result.to_dict()["targets"]["part"]["parts"]["body"]
    assert body["images"] == 9  # every creature has a body of some color
    one = result.to_dict()["targets"]["object"]["by_concept"]["body colour: red"]["gradcam"]["share"]
    assert one is None or 0 < one < 1


def test_own_images_with_masks_named_later_and_other_data(own_run: Path, tmp_path: Path) -> None:
    other = make_own_data(tmp_path / "other")
    masks = tmp_path / "masks"
    masks.mkdir()
    for row in other.rows():
        picture = Image.new("L", Image.open(other.table.parent / row["image"]).size)
        picture.paste(255, (0, 0, picture.size[0] // 2, picture.size[1]))
        picture.save(masks / f"{Path(row['image']).stem}.png")
    section = {"regions": {"masks": str(masks)}}
    result = api.localize(own_run, data=section, out=tmp_path / "own.json").to_dict()
    assert set(result["targets"]) == {"object"}  # its concepts name no parts
    assert result["targets"]["object"]["maps"]["uniform"]["energy"]["value"] == pytest.approx(0.5, abs=0.02)
    named = {"source": str(other.table), "class_column": "diagnosis", **section}
    elsewhere = api.localize(own_run, data=named)
    assert elsewhere.written_to == own_run / "localization-lesions.json"
    assert elsewhere.to_dict()["split"] == "all"
    assert elsewhere.to_dict()["images"] == len(other.rows())
    assert elsewhere.to_dict()["center_prior"]["fitted_on"] == "the judged images"


def test_faithfulness(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faithfulness", str(run), "--n", "6", "--fill", "mean"]) == 0
    assert "insertion" in capsys.readouterr().out
    found = read_json(run / "faithfulness.json")
    assert (found["images"], found["fill"]) == (6, "mean")
    assert set(found["curves"]) == {"own", "gradcam", "center", "random"}
    for curves in found["curves"].values():
        assert all(0 <= curves[key]["value"] <= 1 for key in ("insertion", "deletion"))
    assert found["stability"]["own"]["value"] > found["randomized"]["own"]["value"]
    assert 0 <= found["occlusion"]["wins"]["value"] <= 1
    assert set(found["agreement"]) == {"own and gradcam"}
    assert set(found["dropped"]["curves"]) == set(found["curves"])
    assert set(found["against_center"]) == {"own", "gradcam"}
    center = found["curves"]["own"]["insertion"]["value"] - found["curves"]["center"]["insertion"]["value"]
    assert found["against_center"]["own"]["insertion"]["value"] == pytest.approx(center)
    assert 0 <= found["background_swap"]["held"]["value"] <= 1
    assert {"held", "change", "own", "own gained"} <= set(found["moved"])
    assert found["high_norm"]["area"]["value"] == 1 / 16
    assert abs(found["random_encoder"]["own"]["value"]) < 0.5
    assert found["verdict"]["outcome"] in ("pass", "finding")
    assert found["numbers"]["insertion"] == found["curves"]["own"]["insertion"]["value"]
    again = api.faithfulness(run, n=6, fill="mean", out=tmp_path / "again.json")
    assert read_json(again.written_to) == found


def test_faithfulness_needs_no_regions(own_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = shutil.copytree(own_run, tmp_path / "copy")
    assert main(["faithfulness", str(run), "--n", "2"]) == 0
    assert "insertion" in capsys.readouterr().out
    assert not (run / "localization.json").exists()
    found = read_json(run / "faithfulness.json")
    assert set(found["curves"]) >= {"gradcam", "center", "random"}
    assert found["occlusion"] == {}


def test_bad_input(run: Path, own_run: Path, own: OwnData, refuse: Refuse, tmp_path: Path) -> None:
    assert "found 'tset'. Did you mean 'test'" in refuse("localize", run, "--split", "tset")
    assert "found 'presnt'. Did you mean 'present'" in refuse("localize", run, "--where", "presnt")
    assert "--n: expected at least 1" in refuse("localize", run, "--n", 0)
    assert "--sigma: expected a width above 0" in refuse("localize", run, "--sigma", -1)
    assert "expected one of black, mean, blur, found 'gray'" in refuse("faithfulness", run, "--fill", "gray")
    assert "knows its own regions" in refuse("localize", run, "--data.regions.boxes", "x.csv")
    assert "nothing is known of where things are" in refuse("localize", own_run)
    assert "no such file" in refuse("localize", own_run, "--data.regions.boxes", tmp_path / "no.csv")
    assert "add --data SOURCE" in refuse("localize", own_run, "--data.class_column", "dx")
    assert "no such run" in refuse("localize", tmp_path / "nothing")
    boxes = tmp_path / "boxes.csv"
    with boxes.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("image", "x", "y", "w", "h"), (own.rows()[0]["image"], 1, 1, 2, 2)])
    words = ("--data.regions.boxes", boxes, "--data.regions.concepts", "{border: edge}")
    assert "Unknown part 'edge'" in refuse("localize", own_run, *words)


def test_a_method_without_concepts_has_no_maps(tmp_path: Path) -> None:
    recipe = tiny(tmp_path / "run", training__epochs=1, method={"name": "black-box"}, regularizer={"name": "none"})
    with pytest.raises(UserError, match="black-box reads no concepts, so it has no maps"):
        api.localize(cl.train(recipe, quiet=True).path)


def test_the_documented_recipe_is_valid() -> None:
    page = (ROOT / "docs/localization.md").read_text("utf-8")
    recipe = load_recipe(parse_yaml(page.split("```yaml\n")[1].split("```")[0], where="docs"))
    concepts = ConceptSet.load(str(recipe.concepts))
    names = ("object", *concepts.parts)
    found = concept_parts(concepts, names, recipe.data.regions.concepts)
    wing = concepts.group("primary colour").concepts
    assert {names[part] for part in found[wing]} == {"wing"}
    for name in (*MEASURES, "lift", "iou", "iou_best"):
        assert f"`{name}`" in page or name.startswith(("iou_0", "share"))


def test_the_verdict_rests_on_the_maps_of_what_is_said(found: dict[str, Any]) -> None:
    said = found["targets"]["part"]["predicted"]
    assert set(said["maps"]) == {"own", "gradcam", *BLIND, "perfect"}
    for measure, number in (("average_precision", "ap"), ("pointing", "pointing")):
        best = said["best_blind"][measure]
        assert found["numbers"][f"best_blind_{number}"] == said["maps"][best][measure]["value"]
        assert found["numbers"][number] == said["maps"]["own"][measure]["value"]
    assert found["verdict"] == found["map_verdicts"]["own"]
    beats = all(
        said["against"][f"own - {said['best_blind'][measure]}"][measure]["interval"][0] > 0
        for measure in ("average_precision", "pointing")
    )
    assert found["verdict"]["outcome"] == ("pass" if beats else "finding")


def test_the_best_blind_map_is_chosen_on_images_that_are_not_judged(run: Path, found: dict[str, Any]) -> None:
    assert found["best_blind_from"] == "15 images of val"
    on_val = localize_run(OpenedRun.open(run), split="val").to_dict()["targets"]["part"]["predicted"]
    for measure, best in found["targets"]["part"]["predicted"]["best_blind"].items():
        assert on_val["maps"][best][measure]["value"] == max(on_val["maps"][name][measure]["value"] for name in BLIND)


def test_every_concept_beside_the_best_blind_map_of_its_part(found: dict[str, Any]) -> None:
    said = found["targets"]["part"]["predicted"]
    one = said["by_concept"]["head colour: red"]
    assert one["best_blind"] == said["best_blind_of_part"]["head"]
    assert set(one["best_blind"]) == {"average_precision", "pointing", "energy"}
    assert 0 < one["images"] < 23
    low, high = one["own"]["average_precision - best_blind"]["interval"]
    assert low <= one["own"]["average_precision - best_blind"]["value"] <= high
    assert set(found["unmoving"]) == {"own", "gradcam"}
    alike = found["targets"]["part"]["by_concept"]["head colour: red"]["own"]["other_image"]
    assert ("head colour: red" in found["unmoving"]["own"]) == (alike >= 0.9)


def test_a_perfect_map_has_skill_one_and_the_best_blind_one_none(
    run: Path, found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, card, concepts = load_pipeline(run)
    opened = OpenedRun.open(run)
    source = Shapes(load_recipe(run / "recipe.yaml").data.shapes, concepts)
    regions = read_regions(source, np.arange(len(source)), size=card.image_size, fit=card.fit, grid=(4, 4))
    part_of = concept_parts(concepts, regions.parts, {})
    by_pixels = {
        resize_square(source.read(index), card.image_size, card.fit).tobytes(): index for index in range(len(source))
    }
    middle = torch.zeros(len(concepts), 16)
    middle[:, [5, 6, 9, 10]] = 1

    def planted(pipeline: Pipeline, images: torch.Tensor, kinds: object) -> BatchMaps:
        rows = [by_pixels[image.numpy().tobytes()] for image in images]
        perfect = torch.from_numpy(regions.cover[rows][:, part_of])
        real = concept_maps(pipeline, images)
        return replace(real, maps={"own": perfect, "gradcam": middle.expand(len(images), -1, -1)})

    monkeypatch.setattr("conceptlens.evaluation.localization.map_measures.concept_maps", planted)
    monkeypatch.setattr("conceptlens.evaluation.localization.comparing.IMAGE_FREE", ("uniform", "central_cell"))
    monkeypatch.setattr("conceptlens.evaluation.localization.comparing.MODEL_FREE", ())
    result = localize_run(opened)
    said = result.targets["part"]["predicted"]
    assert said["best_blind"]["energy"] == "central_cell"
    assert said["skill"]["own"]["value"] == pytest.approx(1)
    assert said["skill"]["own"]["interval"] == pytest.approx([1, 1])
    assert said["skill"]["gradcam"]["value"] == pytest.approx(0, abs=1e-6)
    assert said["skill"]["gradcam"]["interval"] == pytest.approx([0, 0], abs=1e-6)
    assert result.verdict.outcome == "pass"
    assert result.targets["part"]["predicted"]["maps"]["own"]["part_specificity"]["value"] > 0.3
    assert result.unmoving["own"] == []
    assert set(result.unmoving["gradcam"]) == set(concepts.names)  # the middle is the same in every image
    assert f"{len(concepts)} concepts hardly change" in result.map_verdicts["gradcam"].reason


def test_several_lesions_of_an_image_and_points_are_parts(own_run: Path, own: OwnData, tmp_path: Path) -> None:
    """Two types of lesions, the first with two spots in every image, the second in every other image; and points."""
    masks = tmp_path / "masks"
    masks.mkdir()
    for number, row in enumerate(own.rows()):
        width, height = Image.open(own.table.parent / row["image"]).size
        spots = Image.new("L", (width, height))
        spots.paste(255, (0, 0, width // 4, height // 4))
        spots.paste(255, (width // 2, height // 2, width, height))
        spots.save(masks / f"{Path(row['image']).stem}_HE.png")
        if number % 2:
            one = Image.new("L", (width, height))
            one.paste(255, (0, height // 2, width // 2, height))
            one.save(masks / f"{Path(row['image']).stem}_EX.png")
    files = {"haemorrhages": "{name}_HE.png", "exudates": "{name}_EX.png"}
    opened = OpenedRun.open(own_run)
    first, second = (group.name for group in opened.concepts.groups[:2])
    regions = {"masks": str(masks), "mask_files": files, "concepts": {first: "haemorrhages", second: "exudates"}}
    found = localize_run(opened, data={"regions": regions}).targets["part"]
    assert set(found["parts"]) == {"haemorrhages", "exudates"}
    assert found["parts"]["haemorrhages"]["maps"]["uniform"]["energy"]["value"] == pytest.approx(5 / 16, abs=0.02)
    assert 0 < found["parts"]["exudates"]["images"] < found["parts"]["haemorrhages"]["images"]
    specific = found["parts"]["haemorrhages"]["maps"]["perfect"]["part_specificity"]["value"]
    assert specific == pytest.approx(1 - 5 / 9, abs=0.1)  # of the area of both, its own is 5 of 9
    points = tmp_path / "points.csv"
    lines = [
        "image,part,x,y,visible",
        *(f"{row['image']},{part},0.5,0.25,1" for row in own.rows() for part in ("eye", "bill")),
    ]
    points.write_text("\n".join(lines), encoding="utf-8")
    marked = {"points": str(points), "units": "fraction", "concepts": {first: "eye", second: "bill"}}
    assert set(localize_run(opened, data={"regions": marked}).targets["part"]["parts"]) == {"eye", "bill"}


def test_absence_is_not_judged(evidence_run: Path) -> None:
    found = localize_run(OpenedRun.open(evidence_run), n=12).to_dict()["targets"]["part"]["by_concept"]
    assert set(found["body pattern: plain"]["own"].values()) == {None}
    assert found["body pattern: striped"]["own"]["energy"] is not None


def test_chunks_of_other_processes_give_the_same_numbers(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(run.iterdir())
    monkeypatch.setattr("conceptlens.evaluation.localization.map_measures.BATCH", 8)
    whole = api.localize(run, n=20, out=tmp_path / "whole.json").to_dict()
    monkeypatch.setattr(chunks, "CHUNK", 8)
    assert api.localize(run, n=20, out=tmp_path / "alone.json").to_dict() == whole
    ran = use_this_process(monkeypatch)
    assert api.localize(run, n=20, out=tmp_path / "shared.json", jobs=2).to_dict() == whole
    assert len(ran) == -(-whole["images"] // 8) > 1
    assert set(run.iterdir()) == before


@pytest.mark.slow
def test_two_processes_localize_as_one(run: Path, tmp_path: Path) -> None:
    alone, shared = (numbers(api.localize(run, out=tmp_path / f"{jobs}.json", jobs=jobs).to_dict()) for jobs in (1, 2))
    assert alone.keys() == shared.keys()
    for name, value in alone.items():
        assert shared[name] == pytest.approx(value, abs=1e-4), name
