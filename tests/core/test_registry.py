"""Names that are registered, installed or come with the package."""

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest

import conceptlens as cl
from conceptlens.core import registry
from conceptlens.core.registry import DATA_SOURCES, ENCODERS, METHOD_PRESETS, METHODS, REGULARIZERS, Registry
from conceptlens.data.sources.open import open_source
from conceptlens.data.sources.shapes import Shapes
from conceptlens.encoders import make_encoder
from conceptlens.encoders.builtin.vit import MINI, BuiltinViT
from conceptlens.methods.cbm import CBM
from conceptlens.nn.regularizers.regularizer import NoRegularizer
from conceptlens.recipes import DataConfig, EncoderConfig
from conceptlens.recipes.parse import load_recipe, retired


@pytest.fixture(autouse=True)
def unregistered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    for known in (METHODS, REGULARIZERS, ENCODERS, DATA_SOURCES):
        monkeypatch.setattr(known, "entries", dict(known.entries))
    monkeypatch.setattr(registry, "PRESETS", {})
    monkeypatch.setattr("conceptlens.recipes.parse.PRESETS", registry.PRESETS)


class Wide(CBM):
    """A method of somebody else."""

    preset: ClassVar[dict[str, Any]] = {"training": {"batch_size": 48}}


def test_the_packages_methods_are_its_presets() -> None:
    assert METHODS.names() == sorted(path.stem for path in METHOD_PRESETS.glob("*.yaml"))
    assert "class" not in load_recipe({"data": "shapes", "method": "ivq-cbm"}).method


def test_a_retired_method_is_found_but_not_listed() -> None:
    assert "magnet-cbm" in METHODS
    assert "magnet-cbm" not in METHODS.names()
    assert "magnet-cbm" not in cl.list_methods()
    recipe = load_recipe({"data": "shapes", "method": "magnet-cbm"})
    assert (recipe.method["pooling"], recipe.method["text"], recipe.regularizer["name"]) == (
        "product",
        "orthogonal",
        "ivq",
    )
    assert "retired" not in recipe.method
    assert "evidence-cbm" in str(retired("magnet-cbm"))
    assert retired("cbm") is None
    METHODS.register("magnet-cbm", Wide, replace=True)  # somebody else's, which is not retired
    assert METHODS.get("magnet-cbm") is Wide
    assert retired("magnet-cbm") is None


def test_names_are_listed_by_pattern() -> None:
    assert {"cbm", "pcbm-h", "sl-cbm"} <= set(cl.list_methods("*cbm*"))
    assert cl.list_methods("labo*") == ["labo", "labo-released"]
    assert cl.list_regularizers("explicit-*")[0] == "explicit-vq"
    assert cl.list_data_sources() == ["blood-cells", "blood-cells-off-center", "shapes"]
    cl.register_encoder("mine", BuiltinViT)
    assert cl.list_encoders("m*") == ["mine"]


def test_a_registered_method_has_its_preset(tmp_path: Path) -> None:
    cl.register_method("wide", Wide)
    assert load_recipe({"data": "shapes", "method": "wide"}).training.batch_size == 48
    (tmp_path / "preset.yaml").write_text("training: {batch_size: 24}\n")
    cl.register_method("wide-2", Wide, preset=tmp_path / "preset.yaml")
    recipe = load_recipe({"data": "shapes", "method": {"name": "wide-2", "space": "probability"}})
    assert (recipe.training.batch_size, recipe.regularizer["name"]) == (24, "none")
    assert recipe.method == {**recipe.method, "name": "wide-2", "space": "probability"}
    with pytest.raises(cl.UserError, match=r"key 'spcae' is not known in `method`. Did you mean 'space'"):
        load_recipe({"data": "shapes", "method": {"name": "wide", "spcae": 1}})


def test_a_name_is_given_once() -> None:
    with pytest.raises(cl.UserError, match=r"method 'cbm' exists already.*replace=True"):
        cl.register_method("cbm", Wide)
    cl.register_method("cbm", Wide, replace=True)
    assert METHODS.get("cbm") is Wide
    assert load_recipe({"data": "shapes", "method": "cbm"}).training.batch_size == 48
    with pytest.raises(cl.UserError, match="cannot be the name of a encoder"):
        cl.register_encoder("timm/mine", BuiltinViT)
    with pytest.raises(cl.UserError, match="cannot be the name"):
        cl.register_method("file.py:Class", Wide)
    with pytest.raises(cl.UserError, match="cannot be the name"):
        cl.register_data_source("shapes", Shapes, replace=True)


def test_unknown_names_get_the_closest() -> None:
    cl.register_method("wide-bottleneck", Wide)
    with pytest.raises(cl.UserError, match="Did you mean 'wide-bottleneck'"):
        load_recipe({"data": "shapes", "method": "wide-botleneck"})
    cl.register_data_source("ponds", Shapes)
    with pytest.raises(cl.UserError, match="Did you mean 'ponds'"):
        open_source(DataConfig("pond"), None)


def test_a_registered_regularizer() -> None:
    class Quiet(NoRegularizer):
        """Does nothing, under another name."""

    cl.register_regularizer("quiet", Quiet)
    assert load_recipe({"data": "shapes", "regularizer": "quiet"}).regularizer["name"] == "quiet"


def test_a_registered_encoder_gets_the_recipes_settings() -> None:
    asked: dict[str, Any] = {}

    def build(**settings: Any) -> BuiltinViT:
        asked.update(settings)
        return BuiltinViT(**{**MINI, **settings, "pretrained": False})

    cl.register_encoder("pond-net", build)
    encoder = make_encoder(EncoderConfig("pond-net", image_size=32, options={"depth": 1}))
    assert (encoder.name, asked["image_size"], asked["depth"], "weights" in asked) == ("pond-net", 32, 1, False)
    cl.register_encoder("no-net", lambda **settings: 3)
    with pytest.raises(cl.UserError, match="returned int; expected an Encoder"):
        make_encoder(EncoderConfig("no-net"))


def test_a_registered_data_source() -> None:
    def opened(config: DataConfig, concepts: Any) -> Any:
        source = Shapes(config.shapes, concepts)
        return source, source.concepts

    cl.register_data_source("ponds", opened)
    source, concepts = open_source(load_recipe({"data": {"source": "ponds", "shapes": {"n": 12}}}).data, None)
    assert (len(source), len(concepts)) == (12, source.examples.concepts.shape[1])
    cl.register_data_source("nothing", lambda config, concepts: (1, 2))
    with pytest.raises(cl.UserError, match="returned int and int"):
        open_source(DataConfig("nothing"), None)


def test_a_broken_entry_point_names_its_package_and_breaks_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package is a folder with its .dist-info on the path; entry points are loaded when they are used."""
    info = tmp_path / "broken_pond-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-pond\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[conceptlens.methods]\nbroken = broken_pond:Pond\n")
    (tmp_path / "broken_pond.py").write_text("raise RuntimeError('dry')\n")
    monkeypatch.syspath_prepend(tmp_path)
    methods = Registry("method", METHODS.group, lambda: {"cbm": METHODS.entries["cbm"]})  # METHODS has looked already
    assert methods.names() == ["broken", "cbm"]
    assert methods.get("cbm") is CBM
    assert "broken_pond" not in sys.modules
    with pytest.raises(cl.UserError, match=r"'broken-pond'.*RuntimeError: dry"):
        methods.get("broken")


def test_the_package_wins_over_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Registry("thing", "nowhere", lambda: {"a": "conceptlens.methods.cbm:CBM"})
    own.installed = {"a": EntryPoint("a", "json:loads", "nowhere"), "b": EntryPoint("b", "json:loads", "nowhere")}
    assert own.get("a") is CBM
    assert own.get("b") is json.loads
    assert own.names() == ["a", "b"]
