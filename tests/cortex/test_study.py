"""From a saved generator to files, through the command line: small, untrained, and complete."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from conceptlens.cli import main
from conceptlens.core.files import write_text
from conceptlens.cortex import distributed
from conceptlens.cortex.bias import study as bias_study
from conceptlens.cortex.bias.study import draw, judged_shares, value_images, value_sets
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.cortex.extractors.importance import SmoothGrad
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.results import mask_result, score_samples
from conceptlens.cortex.study import new_extractor, open_study
from tests.cortex.tiny import save_small_generator
from tests.in_process import use_this_process


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_generator(tmp_path_factory.mktemp("model") / "generator", "round", "square", side=16)


@pytest.fixture(scope="module")
def study(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study") / "run"
    words = "--samples-per-concept 20 --epochs 2 --batch-size 8 --quiet --out"
    assert main(["codebook", "extract", str(model), *words.split(), str(out)]) == 0
    return out


def read(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(path.read_text())
    return found


def few_tokens(*, noise: int, samples: int) -> list[str]:
    numbers = {"tokens-per-image": 3, "noise-samples": noise, "samples-per-concept": samples}
    return [word for name, number in numbers.items() for word in (f"--{name}", str(number))]


def test_extract_writes_a_run(study: Path) -> None:
    info = read(study / "run.json")
    assert (info["kind"], info["status"]) == ("codebook", "done")
    assert set(read(study / "metrics.json")["splits"]["test"]["extractor"]) == {"top-1"}
    lines = [json.loads(line) for line in (study / "history.jsonl").read_text().splitlines()]
    assert [(line["epoch"], line["split"]) for line in lines] == [(0, "train"), (0, "val"), (1, "train"), (1, "val")]
    assert read(study / "samples" / "train.json")["samples"] == 32


def test_samples_of_other_processes_are_the_same(
    model: Path, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = use_this_process(monkeypatch)
    words = "--samples-per-concept 20 --epochs 2 --batch-size 8 --jobs 2 --quiet --out"
    assert main(["codebook", "extract", str(model), *words.split(), str(tmp_path / "shared")]) == 0
    assert len(ran) == 1
    for file in ("samples/train.safetensors", "extractor/extractor.safetensors"):
        assert (tmp_path / "shared" / file).read_bytes() == (study / file).read_bytes()


def test_samples_of_a_relative_model_are_drawn_once(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunks' folder was named after the model's path as each process wrote it: all was drawn again."""
    (tmp_path / "code.py").write_text(
        "from conceptlens.cortex.generators.open import open_model\n"
        "class Mine:\n"
        "    def __init__(self):\n"
        f"        self.inner = open_model({str(model)!r})\n"
        "        self.codebook, self.image_size, self.grid = self.inner.codebook, 16, self.inner.grid\n"
        "        self.classes, self.attributes = self.inner.classes, self.inner.attributes\n"
        "        self.encode, self.generate = self.inner.encode, self.inner.generate\n"
    )
    monkeypatch.chdir(tmp_path)
    ran = use_this_process(monkeypatch)
    words = "--samples-per-concept 20 --epochs 1 --batch-size 8 --jobs 2 --quiet --out shared"
    assert main(["codebook", "extract", "code.py:Mine", *words.split()]) == 0
    assert len(ran) == 1
    assert not list((tmp_path / "shared").glob(".drawn-*"))


def test_images_encoded_by_other_processes_give_the_same_samples(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "CHUNK", 64)
    words = ["--data", "blood-cells", "--samples-per-concept", "30", "--epochs", "1", "--quiet", "--out"]
    assert main(["codebook", "extract", str(model), *words, str(tmp_path / "alone")]) == 0
    ran = use_this_process(monkeypatch)
    assert main(["codebook", "extract", str(model), *words, str(tmp_path / "shared"), "--jobs", "2"]) == 0
    assert len(ran) == 3
    one, two = (tmp_path / name / "samples" / "train.safetensors" for name in ("alone", "shared"))
    assert one.read_bytes() == two.read_bytes()
    assert not list((tmp_path / "shared").glob(".encoded-*"))


def test_a_saved_generator_is_the_same_when_loaded(model: Path) -> None:
    one, other = open_model(model), open_model(model)
    tokens = one.generate(Condition("round"), 3, seed=4)
    assert torch.equal(tokens, other.generate(Condition("round"), 3, seed=4))
    assert not torch.equal(tokens, other.generate(Condition("round"), 3, seed=5))
    assert one.decode(tokens).shape == (3, 3, 16, 16)
    assert one.encode(torch.rand(2, 3, 20, 20)).shape == (2, 4, 4)
    weights = model / "generator.safetensors"
    kept = weights.read_bytes()
    weights.write_bytes(kept[:-2] + b"\x01\x02")
    try:
        assert main(["codebook", "sample", str(model), "--quiet"]) == 2
    finally:
        weights.write_bytes(kept)


def test_sample(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "codebook",
        "sample",
        str(model),
        "--condition",
        "round, size=big",
        "--condition",
        "neutral",
        "--n",
        "2",
        "--quiet",
    ]
    assert main([*words, "--out", str(tmp_path / "s.png")]) == 0
    assert (tmp_path / "s.png").exists()
    assert [row["condition"] for row in read(tmp_path / "s.json")["samples"]] == ["round, size=big", "neutral"]
    assert main([*words, "--out", str(tmp_path / "s.gif")]) == 2
    assert ".png" in capsys.readouterr().err


def test_tokens(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["codebook", "tokens", str(study), *few_tokens(noise=2, samples=5), "--tokens-per-concept", "4"]
    assert main(words) == 0
    assert "written: " in capsys.readouterr().out
    found = read(study / "codebook" / "tokens.json")
    assert main([*words, "--json"]) == 0
    assert {"schema": found["schema"], **json.loads(capsys.readouterr().out)} == found
    assert [each["concept"] for each in found["sets"]] == ["round", "square"]
    assert all(0 < len(each["tokens"]) <= 4 for each in found["sets"])
    assert (study / "codebook" / "tokens.png").exists()


def test_search_from_nothing_and_within_a_sample(study: Path) -> None:
    assert main(["codebook", "search", str(study), "round", "--steps", "3", "--starts", "2"]) == 0
    found = read(study / "codebook" / "search.json")
    assert len(found["tokens"]) == 2
    assert len(found["region"]) == 16
    words = ["codebook", "search", str(study), "round", "--steps", "3", "--sample", "0", "--region", "0:2,0:2"]
    assert main(words) == 0
    assert len(read(study / "codebook" / "search.json")["region"]) == 4


def test_edit_of_a_sample_and_of_a_file(study: Path, tmp_path: Path) -> None:
    words = ["--to", "square", "--region", "center 2x2", "--steps", "3"]
    assert main(["codebook", "edit", str(study), *words, "--sample", "0"]) == 0
    found = read(study / "codebook" / "edit.json")
    assert found["region"] == [[1, 1], [1, 2], [2, 1], [2, 2]]
    assert all([place["row"], place["column"]] in found["region"] for place in found["changed"])
    assert (
        main(["codebook", "sample", str(open_path(study)), "--n", "1", "--quiet", "--out", str(tmp_path / "a.png")])
        == 0
    )
    edit = ["codebook", "edit", str(study), str(tmp_path / "a.png"), *words]
    assert main([*edit, "--out", str(tmp_path), "--method", "embeddings"]) == 0
    assert read(tmp_path / "edit.json")["method"] == "embeddings"


def open_path(study: Path) -> str:
    return str(read(study / "run.json")["model"]["name"])


def test_bias(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "sizes"
    words = ["--concepts", "size=small", "--concepts", "size=big", "--samples-per-concept", "20"]
    words += ["--epochs", "1", "--batch-size", "8", "--quiet"]
    assert main(["codebook", "extract", str(model), *words, "--out", str(out)]) == 0
    words = [
        "--tokens-per-image",
        "2",
        "--tokens-per-image",
        "3",
        "--tokens-per-concept",
        "3",
        "--neutral",
        "20",
        "--permutations",
        "5",
        "--quiet",
    ]
    assert main(["codebook", "bias", str(out), *words]) == 0
    found = read(out / "codebook" / "bias.json")
    assert [table["n"] for table in found["tables"]] == [2, 3]
    pair = found["tables"][0]["pairs"][0]
    assert pair["delta"]["paper"] == pytest.approx(pair["delta"]["value"] / 2)
    assert found["variant"] == "paper"
    assert len(list(out.glob(".drawn-*/*"))) == 1  # neutral samples stay, for the next call
    assert main(["codebook", "bias", str(out), *words, "--variant", "released"]) == 0
    released, study = read(out / "codebook" / "bias.json"), open_study(out)
    assert released["variant"] == "released"
    train = study.samples["train"]
    scores = score_samples(study, train, SmoothGrad(of="logit", noise="batch", channels="max"))
    sets = value_sets(value_images(train, scores, 2), 2, 3, len(study.codebook), "frequency")
    assert released["tables"][0]["pairs"][0]["shared"] == len(set(sets[0].tokens) & set(sets[1].tokens))
    assert main(["codebook", "bias", str(out), *words, "--unbiased", str(model)]) == 0
    again = tmp_path / "again"
    shutil.copytree(out, again)
    asked: list[int] = []
    monkeypatch.setattr(bias_study, "draw", lambda *given, **more: asked.append(1) or draw(*given, **more))
    assert main(["codebook", "bias", str(out), str(again), *words]) == 0
    assert len(asked) == 1  # one model: its neutral samples are made once
    told = read(out / "codebook" / "bias.json")
    assert told["attributes"] == 2
    for one, two in zip(found["tables"], told["tables"], strict=True):  # the same p twice: Holm doubles it
        alone, both = one["pairs"][0]["p_balanced"], two["pairs"][0]["p_balanced"]
        assert both == pytest.approx(min(1.0, 2 * alone))
    assert read(again / "codebook" / "bias.json")["tables"] == told["tables"]


def test_any_function_of_images_can_judge(study: Path, tmp_path: Path) -> None:
    opened = open_study(study, device=torch.device("cpu"))
    names = opened.extractor.card.concepts

    def last(images: Tensor) -> Tensor:
        return torch.eye(len(names))[torch.full((len(images),), len(names) - 1)]

    shares = judged_shares(opened, opened.samples["test"].tokens.long(), last)
    assert list(shares.values()) == [0.0] * (len(names) - 1) + [1.0]
    found = mask_result(opened, {"last": last}, counts=[2], n=3, k=4, limit=2, out=tmp_path)
    assert {row["judge"] for row in found.data["sets"]} == {"last"}
    assert all(row["accuracy"] == pytest.approx(1 / len(names)) for row in found.data["sets"])
    assert found.data["images"] == 2 * len(names)
    assert found.data["codebook_share"] == pytest.approx(4 / len(opened.codebook))
    fewer = mask_result(opened, {"last": last}, counts=[2], n=3, k=4, limit=2, training_limit=1, out=tmp_path)
    assert fewer.data["images"] == found.data["images"]
    assert fewer.data["training_samples"] == len(names) < found.data["training_samples"]


def test_the_demo_runs_with_any_generator(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conceptlens.cortex.demo.SEARCH", SearchSettings(steps=3))
    monkeypatch.setattr("conceptlens.cortex.demo.SMALL", {"filters": 4, "hidden": 8})
    words = [
        "codebook",
        "demo",
        "--model",
        str(model),
        "--samples-per-concept",
        "10",
        "--quiet",
        "--out",
        str(tmp_path / "demo"),
    ]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "tokens of the region changed" in said
    assert (tmp_path / "demo" / "samples.png").exists()
    assert (tmp_path / "demo" / "values" / "codebook" / "bias.json").exists()


def test_encoded_images_of_a_model_that_does_not_generate(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    from tests.cortex.generators.test_vqgan import tiny_state

    save_file(tiny_state(), tmp_path / "vqgan.safetensors")
    words = [
        "codebook",
        "extract",
        str(tmp_path / "vqgan.safetensors"),
        "--image-size",
        "16",
        "--samples-per-concept",
        "10",
    ]
    words += ["--epochs", "1", "--batch-size", "8", "--quiet", "--out", str(tmp_path / "run")]
    assert main(words) == 2  # it does not generate
    assert main([*words, "--data", "shapes", "--filters", "4", "--hidden", "8"]) == 0
    assert main(["codebook", "tokens", str(tmp_path / "run"), *few_tokens(noise=1, samples=4)]) == 0
    assert main(["codebook", "bias", str(tmp_path / "run")]) == 2


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["tokens", "STUDY", "--variant", "papr"], "Did you mean 'paper'"),
        (["search", "STUDY", "rond"], "Did you mean 'round'"),
        (["search", "STUDY", "round", "--region", "0:2,0:2"], "--sample"),
        (["search", "STUDY", "round", "--sample", "99"], "samples 0 to"),
        (["edit", "STUDY", "--to", "square", "--region", "0:9,0:9", "--sample", "0"], "rows must lie in 0:4"),
        (["edit", "STUDY", "--to", "square", "--region", "0:2,0:2"], "--sample N"),
        (["mask", "STUDY"], "--judge"),
        (["pairs", "STUDY", "--judge", "run", "--pair", "round"], "two concepts"),
        (["bias", "STUDY", "--tokens-per-image", "a"], "expected a whole number"),
        (["bias", "STUDY", "STUDY", "--neutral", "4"], "named twice"),
        (["bias", "STUDY", "STUDY", "--out", "there"], "--out is for one study"),
        (["tokens", "MODEL"], "run.json"),
        (["extract", "nowhere", "--out", "x"], "no such model"),
        (["extract", "MODEL", "--out", "x", "--concepts", "round"], "at least two"),
        (["extract", "MODEL", "--out", "x", "--concepts", "round", "--concepts", "sqare"], "Did you mean 'square'"),
        (["extract", "MODEL", "--out", "x", "--network", "CEE"], "Did you mean 'CE'"),
    ],
)
def test_bad_input(
    words: list[str],
    hint: str,
    model: Path,
    study: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"STUDY": str(study), "MODEL": str(model)}
    words = [places.get(word, word) for word in words]
    quiet = ["--quiet", "--samples-per-concept", "4", "--epochs", "1"] if words[0] == "extract" else []
    assert main(["codebook", *words, *quiet]) == 2
    said = capsys.readouterr().err
    assert hint in said
    assert "Traceback" not in said


def test_an_extractor_of_another_codebook_is_refused(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(study, copy)
    save_small_generator(tmp_path / "other", "round", "square", side=16, name="other", seed=1)
    info = read(copy / "run.json")
    info["model"]["name"] = str(tmp_path / "other")
    write_text(copy / "run.json", json.dumps(info))
    assert main(["codebook", "tokens", str(copy)]) == 2
    assert "another codebook" in capsys.readouterr().err


def test_the_seed_decides_the_first_weights() -> None:
    """They were drawn before the seed was set: the same command gave another extractor each time."""
    model: Any = SimpleNamespace(codebook=torch.rand(8, 4), grid=(4, 4))

    def weights(state: int, seed: int) -> torch.Tensor:
        torch.manual_seed(state)
        extractor = new_extractor(model, ["a", "b"], "CE", {"filters": 4, "hidden": 8}, seed)
        return torch.cat([value.flatten() for value in extractor.parameters()])

    assert torch.equal(weights(1, 0), weights(2, 0))
    assert not torch.equal(weights(1, 0), weights(1, 1))
