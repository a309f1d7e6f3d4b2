"""Runs of the rest of the house: their codebook behind the contract, and their predictions as judges."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

import conceptlens as cl
from conceptlens.cli import main
from conceptlens.core.errors import UserError
from conceptlens.core.files import write_text
from conceptlens.cortex.generators.builtin.generator import SmallGenerator, save_generator
from conceptlens.cortex.generators.builtin.settings import GeneratorSettings
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.ivq import IVQCodebook
from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.judges import open_judges, run_judge
from conceptlens.cortex.study import open_study
from tests.training.tiny import tiny

FEW = ["--tokens-per-image", "4", "--noise-samples", "2", "--samples-per-concept", "5"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cl.train(tiny(tmp_path_factory.mktemp("ivq") / "run", training__epochs=1), quiet=True).path


def test_patches_become_their_nearest_codes(run: Path) -> None:
    model = open_model(run)
    assert isinstance(model, IVQCodebook)
    images = torch.rand(3, 3, model.image_size, model.image_size)
    tokens = model.encode(images)
    assert tokens.shape == (3, *model.grid)
    output = model.pipeline(images)
    assert torch.equal(tokens.flatten(1), output.codes)
    with pytest.raises(UserError, match="no decoder"):
        model.decode(tokens)


def test_a_run_without_codebook_says_so(tmp_path: Path) -> None:
    recipe = tiny(tmp_path / "run", training__epochs=1, regularizer={"name": "none"})
    other = cl.train(recipe, quiet=True).path
    with pytest.raises(UserError, match="no codebook"):
        open_model(other)


def test_prototypes_of_a_run_are_explained(run: Path, tmp_path: Path) -> None:
    words = ["codebook", "extract", str(run), "--data", "shapes", "--samples-per-concept", "12", "--epochs", "1"]
    words += ["--batch-size", "8", "--filters", "4", "--hidden", "8", "--quiet", "--out", str(tmp_path / "study")]
    assert main(words) == 0
    assert main(["codebook", "tokens", str(tmp_path / "study"), *FEW]) == 0
    hide = [
        "codebook",
        "mask",
        str(tmp_path / "study"),
        "--judge",
        str(run),
        "--counts",
        "2",
        "--tokens-per-image",
        "4",
    ]
    assert main(hide) == 0  # without a decoder, pixels are hidden in the images that were encoded
    hidden = json.loads((tmp_path / "study/codebook/masking.json").read_text())
    shown = open_study(tmp_path / "study")
    test = shown.samples["test"]
    pictures = shown.pictures("test", range(len(test)))
    assert pictures is not None
    said = run_judge(run, shown.extractor.card.concepts)(pictures)
    expected = float(said.gather(1, test.labels[:, None]).mean())
    assert hidden["curves"][0]["deletion"][0] == pytest.approx(expected, abs=1e-5)
    found = json.loads((tmp_path / "study/codebook/tokens.json").read_text())
    assert len(found["sets"]) >= 2
    assert not (tmp_path / "study/codebook/tokens.png").exists()  # nothing to decode with
    written = json.loads((tmp_path / "study/codebook/grids.json").read_text())
    assert written["pictures"] is True
    model = open_model(run)
    for each in written["images"]:  # beside its tokens stands the image that they were read from
        pixels = np.asarray(Image.open(tmp_path / f"study/codebook/grids/{each['row']}.png"))
        image = torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255
        assert model.encode(image[None])[0].tolist() == each["tokens"]
    info = json.loads((tmp_path / "study/run.json").read_text())
    assert open_study(tmp_path / "study").pictures("test", [0]) is not None
    other = info["data"] | {"hash": "other images"}
    write_text(tmp_path / "study/run.json", json.dumps(info | {"data": other}))
    assert open_study(tmp_path / "study").pictures("test", [0]) is None
    assert main(hide) == 2
    assert main(["codebook", "search", str(tmp_path / "study"), found["sets"][0]["concept"], "--steps", "2"]) == 0


def test_a_judge_answers_in_the_order_it_is_asked(run: Path) -> None:
    model = open_model(run)
    assert isinstance(model, IVQCodebook)
    names = list(model.classes)
    images = torch.rand(2, 3, model.image_size, model.image_size)
    logits = model.pipeline(images).logits
    found = run_judge(run, names[::-1])(images)
    torch.testing.assert_close(found, F.softmax(logits.flip(1), 1))
    group = model.vocabulary.groups[0]
    asked = [f"{group.name}={value}" for value in group.values]
    expected = model.pipeline(images).concept_logits[:, group.concepts].softmax(1)
    torch.testing.assert_close(run_judge(run, asked)(images), expected)
    larger = F.interpolate(images, scale_factor=2.0)
    assert run_judge(run, names)(larger).shape == (2, len(names))
    with pytest.raises(UserError, match="classes or into values"):
        run_judge(run, [names[0], asked[0]])


def test_masking_and_pairs_are_judged_by_a_run(run: Path, tmp_path: Path) -> None:
    classes = tuple(open_model(run).classes[:2])
    settings = GeneratorSettings(
        classes, {}, image_size=16, channels=(4, 8, 8), codes=16, width=4, transformer_width=8, depth=1, heads=2
    )
    torch.manual_seed(0)
    save_generator(SmallGenerator(settings, "tiny"), tmp_path / "model")
    study = str(tmp_path / "study")
    words = [
        "codebook",
        "extract",
        str(tmp_path / "model"),
        "--samples-per-concept",
        "20",
        "--epochs",
        "1",
        "--batch-size",
        "8",
    ]
    assert main([*words, "--quiet", "--out", study]) == 0
    judge = ["--judge", str(run)]
    sizes = ["--tokens-per-image", "3", "--tokens-per-concept", "4"]
    assert main(["codebook", "mask", study, *judge, "--counts", "2", "--counts", "5", *sizes, "--fill", "mean"]) == 0
    found = json.loads((tmp_path / "study/codebook/masking.json").read_text())
    assert [curve["order"] for curve in found["curves"]] == ["importance", "random"]
    rows = {row["tokens"]: row for row in found["sets"]}
    assert set(rows) == {"concept sets", "frequency", "frequency, equally many", "random, equally many"}
    assert (
        rows["concept sets"]["hidden"]
        == rows["frequency, equally many"]["hidden"]
        == rows["random, equally many"]["hidden"]
    )
    assert main(["codebook", "pairs", study, *judge, "--region", "0:2,0:2", "--n", "2", "--steps", "2"]) == 0
    table = json.loads((tmp_path / "study/codebook/pairs.json").read_text())["rows"]
    assert [row["method"] for row in table] == ["embeddings", "tokens"]
    words = ["--tokens-per-image", "3", "--tokens-per-concept", "3", "--neutral", "8", "--permutations", "3", "--quiet"]
    assert main(["codebook", "bias", study, *words, *judge]) == 0
    (judged,) = json.loads((tmp_path / "study/codebook/bias.json").read_text())["judged"]
    assert sum(judged["shares"].values()) == pytest.approx(1)
    edit = ["codebook", "edit", study, "--sample", "0", "--to", classes[1], "--region", "0:2,0:2", "--steps", "2"]
    assert main([*edit, *judge]) == 0
    assert "judges" in json.loads((tmp_path / "study/codebook/edit.json").read_text())
    assert SmallGenerator(settings).generate(Condition(classes[0]), 1).shape == (1, 4, 4)


def test_a_classifier_of_timm_judges(tmp_path: Path) -> None:
    import timm
    from safetensors.torch import save_file

    torch.manual_seed(0)
    network = timm.create_model("test_resnet", pretrained=False).eval()
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    word = f"timm/test_resnet={tmp_path / 'weights.safetensors'}"
    judge = open_judges([word], ["7", "goldfish"])[word]
    images = torch.rand(2, 3, network.default_cfg["input_size"][1], network.default_cfg["input_size"][1])
    mean, std = (torch.tensor(network.default_cfg[part]).view(1, 3, 1, 1) for part in ("mean", "std"))
    with torch.no_grad():
        expected = network((images - mean) / std)[:, [7, 1]].softmax(1)  # the goldfish is number 1
    torch.testing.assert_close(judge(images), expected)
    with pytest.raises(UserError, match="Unknown class of timm/test_resnet 'Basophil'"):
        open_judges([word], ["Basophil"])
