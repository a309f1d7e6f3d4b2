"""A model goes to a hub and comes back the same, with a card of what was measured and without anything private."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub import constants

import conceptlens as cl
from conceptlens.core.files import parse_yaml, read_json
from conceptlens.workflows.hub.published import FILES, without_paths
from conceptlens.workflows.hub.transfer import parse_address
from tests.training.tiny import tiny
from tests.workflows.hub.server import Hub, running

NAME = "lab/cells"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> cl.TrainedModel:
    recipe = tiny(tmp_path_factory.mktemp("hub") / "run", training__epochs=1, data__shapes={"n": 192, "size": 32})
    return cl.train(recipe, quiet=True)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The library speaks to a server of this process, and keeps what it fetches in a folder of the test."""
    with running() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        template = hub.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(huggingface_hub.HfApi, "__init__", _with_endpoint(huggingface_hub.HfApi.__init__, hub))
        monkeypatch.setenv("HF_TOKEN", "hf_token")
        yield hub


def _with_endpoint(create: Any, hub: Hub) -> Any:
    def init(self: Any, endpoint: str | None = None, **options: Any) -> None:
        create(self, endpoint=endpoint or hub.address, **{**options, "token": "hf_token"})

    return init


def _image() -> Any:
    return np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)


def test_there_and_back(model: cl.TrainedModel, hub: Hub, tmp_path: Path) -> None:
    assert model.push_to_hub(NAME, license="cc-by-4.0") == f"hf://{NAME}"
    assert hub.private == {NAME: True}
    assert set(hub.files[NAME]) - {".gitattributes"} <= set(FILES)
    back = cl.load(f"hf://{NAME}")
    here, there = model.predict(_image())[0], back.predict(_image())[0]
    assert here == there
    assert there.prediction_set is not None  # from the bounds alone: no prediction was published
    assert back.concept_names == model.concept_names
    pulled = cl.pull(NAME, out=tmp_path / "mine")
    assert cl.load(pulled).predict(_image())[0] == here
    with pytest.raises(cl.UserError, match="is already there"):
        cl.pull(NAME, out=tmp_path / "mine")


def test_a_fetched_model_needs_no_network(model: cl.TrainedModel, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    model.push_to_hub(NAME)
    first = cl.load(f"hf://{NAME}").path
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.asked.clear()
    assert cl.load(f"hf://{NAME}").path == first
    assert not hub.asked
    with pytest.raises(cl.UserError, match="hf://lab/other: cannot be fetched"):
        cl.load("hf://lab/other")


def test_files_that_are_no_models_are_not_fetched(model: cl.TrainedModel, hub: Hub) -> None:
    model.push_to_hub(NAME)
    hub.files[NAME]["setup.py"] = b"raise SystemExit"
    assert not (cl.load(f"hf://{NAME}").path / "setup.py").exists()
    hub.files["lab/other"] = {"README.md": b"another library"}
    with pytest.raises(cl.UserError, match=r"no model of conceptlens: it has no run\.json"):
        cl.load("hf://lab/other")
    with pytest.raises(cl.UserError, match="cannot be fetched"):
        cl.load("hf://lab/nothing")


def test_the_card_says_what_was_measured(model: cl.TrainedModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "out", license="cc-by-4.0")
    _, head, text = (tmp_path / "out/README.md").read_text("utf-8").split("---\n", 2)
    front = parse_yaml(head, where="card")
    assert front["license"] == "cc-by-4.0"
    measured = read_json(model.path / "metrics.json")["splits"]["test"]
    (result,) = front["model-index"][0]["results"]
    values = {each["type"]: each["value"] for each in result["metrics"]}
    assert values["class.accuracy"] == pytest.approx(measured["class"]["accuracy"], abs=1e-4)
    low, high = measured["intervals"]["class.accuracy"]
    assert f"{low:.3f} to {high:.3f}" in text
    assert "It was not examined" in text
    for warning in model.info["warnings"]:
        assert warning in text.replace("\\", "")
    config = json.loads((tmp_path / "out/config.json").read_text("utf-8"))
    assert config["concepts"] == model.concept_names
    assert list(config["id2label"].values()) == model.classes


def test_names_in_the_card_are_text(model: cl.TrainedModel, tmp_path: Path) -> None:
    shutil.copytree(model.path, tmp_path / "run")
    card = tmp_path / "run/model/model.json"
    raw = json.loads(card.read_text("utf-8"))
    names = ["![x](http://evil.example/x.png)", "<img src=x>\n## Safe"]
    card.write_text(json.dumps({**raw, "classes": [*names, *raw["classes"][2:]]}), "utf-8")
    cl.rehash(tmp_path / "run")
    cl.load(tmp_path / "run").save_pretrained(tmp_path / "out")
    text = (tmp_path / "out/README.md").read_text("utf-8")
    assert r"\!\[x\](http://evil.example/x.png), \<img src=x\> \#\# Safe" in text


def test_nothing_private_is_published(model: cl.TrainedModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "out")
    published = {str(path.relative_to(tmp_path / "out").as_posix()) for path in (tmp_path / "out").rglob("*.*")}
    assert published <= set(FILES)
    for name in published - {"model/weights.safetensors", "distribution.safetensors"}:
        text = (tmp_path / "out" / name).read_text("utf-8")
        assert str(model.path.parent) not in text, name
        assert not any(f'"{image}"' in text for image in model.source.examples.ids[:5]), name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/me/cells.csv", "cells.csv"),
        ("file:///home/me/cells-{0..9}.tar", "cells-{0..9}.tar"),
        ("filecache::file:///home/me/cells.tar", "cells.tar"),
        (r"C:\Users\me\cells", "cells"),
        ("~/cells", "cells"),
        ("cells", "cells"),
        ("a/b", "a/b"),
    ],
)
def test_paths_lose_where_they_lay(path: str, name: str) -> None:
    assert without_paths({"data": [path, 3]}) == {"data": [name, 3]}


@pytest.mark.parametrize("address", ["hf://cells", "hf://a/b/c", "hf://../x y", "hf://"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(cl.UserError, match="expected a repository of the hub"):
        parse_address(address)
