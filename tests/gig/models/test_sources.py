"""Models to decompose by name: each source's outputs are those of the original, with its own preprocessing."""

import json
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import nn

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.core.network import offline
from conceptlens.gig.load_model import open_model
from conceptlens.gig.models.loaded import FRESH, Asked
from conceptlens.gig.models.own import open_module
from conceptlens.gig.models.zero_shot import SCALE
from conceptlens.gig.network import open_network
from tests.training.tiny import tiny


@torch.no_grad()
def test_timm_in_a_folder_with_its_labels(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = timm.create_model("test_resnet", num_classes=3).eval()
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    config = {"mean": [0.1, 0.2, 0.3], "std": [1, 1, 1], "input_size": [3, 96, 96], "label_names": ["x", "y", "z"]}
    published = {"architecture": "test_resnet", "num_classes": 3, "pretrained_cfg": config}
    (tmp_path / "config.json").write_text(json.dumps(published))
    opened = open_model(f"timm/local-dir:{tmp_path}")
    assert (opened.outputs, opened.image_size) == (["x", "y", "z"], 96)
    images = torch.rand(2, 3, 96, 96)
    expected = model(images - torch.tensor([0.1, 0.2, 0.3]).view(1, 3, 1, 1))
    torch.testing.assert_close(opened.module(opened.prepare(images)), expected)
    assert "timm's configuration" in opened.preprocessing.text()
    assert open_module(model, "model", Asked(image_size=96)).preprocessing.source.startswith("timm's")


def test_without_the_hub_it_says_what_this_command_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.constants.HF_HUB_CACHE", str(tmp_path))
    with offline(), pytest.raises(UserError, match=r"--weights FILE\.safetensors.*--weights fresh"):
        open_model("timm/test_resnet")


@torch.no_grad()
def test_torchvision(tmp_path: Path) -> None:
    from torchvision import models

    with pytest.raises(UserError, match="publishes pickles only"):
        open_model("torchvision/squeezenet1_1")
    with pytest.raises(UserError, match="squeezenet1_1"):
        open_model("torchvision/squeezenet1")
    reference = models.get_model("squeezenet1_1", weights=None).eval()
    save_file(reference.state_dict(), tmp_path / "w.safetensors")
    opened = open_model("torchvision/squeezenet1_1", Asked(str(tmp_path / "w.safetensors")))
    assert (opened.image_size, opened.outputs[:2], len(set(opened.outputs))) == (224, ["tench", "goldfish"], 1000)
    assert opened.preprocessing.mean == (0.485, 0.456, 0.406)
    images = torch.rand(1, 3, 224, 224)
    transform = models.SqueezeNet1_1_Weights.DEFAULT.transforms()
    pixels = (images - torch.tensor(transform.mean).view(1, 3, 1, 1)) / torch.tensor(transform.std).view(1, 3, 1, 1)
    torch.testing.assert_close(opened.module(opened.prepare(images)), reference(pixels))


@torch.no_grad()
def test_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", minversion="5")
    options = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    labels = {0: "cat", 1: "dog"}
    config = transformers.ViTConfig(**options, image_size=32, patch_size=8, id2label=labels)
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(config).eval()
    model.save_pretrained(tmp_path)
    images_config = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3, "size": {"height": 32, "width": 32}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(images_config))
    opened = open_model(f"transformers/local-dir:{tmp_path}")
    assert (opened.outputs, opened.image_size) == (["cat", "dog"], 32)
    images = torch.rand(2, 3, 32, 32)
    found = opened.module(opened.prepare(images)).logits
    torch.testing.assert_close(found, model(pixel_values=(images - 0.5) / 0.25).logits)
    layer = next(name for name, part in opened.module.named_modules() if type(part).__name__ == "ViTLayer")
    with torch.enable_grad():
        network = open_network(opened.module, [layer], image_size=32)
    assert (network.grids[layer], network.hook_point(layer).prefix) == ((4, 4), 1)
    config_file = tmp_path / "config.json"
    config_file.write_text(config_file.read_text().replace('"vit"', '"vit_mae"'))
    with pytest.raises(UserError, match="no image classifier of the type 'vit_mae'"):
        open_model(f"transformers/local-dir:{tmp_path}")


@torch.no_grad()
def test_texts_are_the_outputs_of_a_clip() -> None:
    from conceptlens.encoders import make_encoder, make_text_encoder
    from conceptlens.recipes.schema import EncoderConfig

    opened = open_model("builtin/vit", Asked(names=["neutrophil", "eosinophil"], prompt="a {} cell", image_size=32))
    assert (opened.outputs, opened.what, opened.target) == (["neutrophil", "eosinophil"], "text", "probability")
    encoder = make_encoder(EncoderConfig(name="builtin/vit", image_size=32)).eval()
    images = torch.rand(2, 3, 32, 32)
    texts = make_text_encoder("builtin/text").embed(["a neutrophil cell", "a eosinophil cell"])
    expected = SCALE * encoder.embed(encoder(images)) @ texts.T
    torch.testing.assert_close(opened.module(opened.prepare(images)), expected, rtol=1e-4, atol=1e-4)
    for asked, message in (
        (Asked(), "its outputs are texts"),
        (Asked(names=["a", "b"], prompt="a cell"), "in the place of the class"),
        (Asked(names=["a", "b"], normalize="clip"), "by itself"),
        (Asked(weights=FRESH, names=["a", "b"]), "random weights"),
    ):
        with pytest.raises(UserError, match=message):
            open_model("builtin/vit", asked)
    with pytest.raises(UserError, match="no text tower"):
        open_model("builtin/efficientnet-lite0", Asked(names=["a", "b"]))
    with pytest.raises(UserError, match="only models whose outputs are texts"):
        open_model("resnet50", Asked(prompt="a {}"))


class Wrapped(nn.Module):
    """Returns an object with `logits`, as transformers' models do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3, 2), nn.Linear(4, 3)

    def forward(self, images: torch.Tensor) -> dict[str, Any]:
        return {"logits": self.head(self.conv(images).mean((2, 3)))}


def test_a_module_may_return_an_object_with_logits() -> None:
    assert open_module(Wrapped(), "wrapped", Asked(image_size=16)).outputs == ["class 0", "class 1", "class 2"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["black-box", "cbm"])
def test_runs(method: str, tmp_path: Path) -> None:
    """A black box ends in its classes, a bottleneck in its concepts; both are decomposed from end to end."""
    from conceptlens.gig import decompose

    run = cl.train(tiny(tmp_path / "run", method={"name": method}, training__epochs=1), quiet=True)
    opened = open_model(str(run.path))
    assert opened.what == ("class" if method == "black-box" else "concept")
    with pytest.raises(UserError, match="its own; leave them out"):
        open_model(str(run.path), Asked(normalize="clip"))
    few: dict[str, Any] = {"n": 24, "k": 4, "examples": 1, "validate_on": 0, "graphs": [], "most_steps": 8}
    result = decompose(str(run.path), data="shapes", rule="gradient", out=tmp_path / "gig", **few)
    assert set(result.graph.outputs) <= set(opened.outputs)
