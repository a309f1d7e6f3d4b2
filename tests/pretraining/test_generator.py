"""The generator's training on a CPU with tiny sizes: stages, resuming, skews, measuring."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.builtin.generator import load_generator
from conceptlens.cortex.generators.condition import Condition
from pretraining.generator.data import Labeled, draw_weights, from_source, turned
from pretraining.generator.measure import asked_and_seen, picture, reconstruction, token_loss
from pretraining.generator.settings import Settings, read_settings
from pretraining.generator.train import main, rate_at, train

RECIPE = {
    "image_size": 16,
    "encoder": "builtin/vit-mini",
    "layers": [0],
    "autoencoder": {"steps": 4, "batch": 4, "adversary_from": 2},
    "transformer": {"steps": 4, "batch": 4},
    "warmup": 1,
    "sizes": {"channels": [4, 8, 8], "codes": 16, "width": 4, "transformer_width": 8, "depth": 1, "heads": 2},
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    return read_settings(tmp_path / "recipe.yaml")


def data(n: int = 24) -> Labeled:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (n, 3, 16, 16), generator=generator, dtype=torch.uint8)
    conditions = torch.stack([torch.arange(n) % 2, torch.arange(n) % 3], 1)
    return Labeled(images, conditions, ("a", "b"), {"size": ("small", "middle", "big")})


def test_both_stages_learn_and_are_exported(settings: Settings, tmp_path: Path) -> None:
    assert train(data(), tmp_path / "run", settings, torch.device("cpu"), about="noise")
    lines = [json.loads(line) for line in (tmp_path / "run/autoencoder/log.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 4
    assert {"pixels", "perceptual", "commitment", "fooled", "discriminator", "use"} <= set(lines[-1])
    model = load_generator(tmp_path / "run/model")
    assert model.generate(Condition("b", {"size": "big"}), 2).shape == (2, 4, 4)
    found = reconstruction(model, data())
    assert 0 < found["codebook"]["use"] <= 1
    assert found["mean_absolute"] > 0
    seen = asked_and_seen(
        model, lambda images: torch.eye(2)[torch.zeros(len(images)).long()], [Condition("a"), Condition("b")], 3
    )
    assert seen["seen"] == [[3, 0], [3, 0]]
    assert seen["accuracy"] == 0.5
    assert picture(model, data(), 2)[:4] == b"\x89PNG"


def test_a_stopped_training_goes_on_as_if_it_had_not_been(settings: Settings, tmp_path: Path) -> None:
    from pretraining.generator import train as module

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert train(data(), whole, settings, torch.device("cpu"))
    learn = module.AutoencoderStage.learn

    class Stopped(Exception):
        pass

    def interrupted(self, step: int):  # type: ignore[no-untyped-def]
        if step == 3:
            raise Stopped
        return learn(self, step)

    module.AutoencoderStage.learn = interrupted  # type: ignore[method-assign]
    try:
        with pytest.raises(Stopped):
            train(data(), parts, Settings(**{**vars(settings), "save_every": 2}), torch.device("cpu"))
    finally:
        module.AutoencoderStage.learn = learn  # type: ignore[method-assign]
    assert train(data(), parts, settings, torch.device("cpu"))
    one, other = load_generator(whole / "model").state_dict(), load_generator(parts / "model").state_dict()
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], atol=2e-2, rtol=2e-2, msg=name)  # moments are kept in bf16


def test_time_is_kept(settings: Settings, tmp_path: Path) -> None:
    assert not train(data(), tmp_path / "run", settings, torch.device("cpu"), seconds=0)
    assert train(data(), tmp_path / "run", settings, torch.device("cpu"))


def test_twins_share_their_codebook(settings: Settings, tmp_path: Path) -> None:
    assert train(data(), tmp_path / "one", settings, torch.device("cpu"))
    twin = train(
        data(), tmp_path / "two", settings, torch.device("cpu"), skew="size=big:8", autoencoder=tmp_path / "one/model"
    )
    assert twin
    one, two = (load_generator(tmp_path / name / "model") for name in ("one", "two"))
    assert torch.equal(one.codebook, two.codebook)
    assert not (tmp_path / "two/autoencoder").exists()


def test_a_twin_can_go_on_from_a_trained_generator(settings: Settings, tmp_path: Path) -> None:
    device = torch.device("cpu")
    assert train(data(), tmp_path / "one", settings, device)
    none = replace(settings, transformer=replace(settings.transformer, steps=0))
    assert train(data(), tmp_path / "two", none, device, start=tmp_path / "one/model")
    one, two = (load_generator(tmp_path / name / "model").state_dict() for name in ("one", "two"))
    assert all(torch.equal(value, two[name]) for name, value in one.items())  # no step: nothing has moved
    other = replace(settings, sizes={**settings.sizes, "codes": 8})
    with pytest.raises(UserError, match="other sizes"):
        train(data(), tmp_path / "three", other, device, start=tmp_path / "one/model")


def test_a_first_stage_can_be_ended_early(settings: Settings, tmp_path: Path) -> None:
    short = replace(settings, autoencoder=replace(settings.autoencoder, stop=2))
    assert train(data(), tmp_path / "run", short, torch.device("cpu"))
    assert json.loads((tmp_path / "run/autoencoder/checkpoint/note.json").read_text())["step"] == 2
    assert train(data(), tmp_path / "run", short, torch.device("cpu"))  # done: nothing is trained again
    assert len((tmp_path / "run/autoencoder/log.jsonl").read_text().splitlines()) == 1


def test_token_loss_is_the_cross_entropy_of_what_is_hidden(settings: Settings, tmp_path: Path) -> None:
    assert train(data(), tmp_path / "run", settings, torch.device("cpu"))
    model = load_generator(tmp_path / "run/model")
    for parameter in model.transformer.parameters():
        parameter.zero_()  # every token equally probable
    assert token_loss(model, data()) == pytest.approx(math.log(16), abs=1e-5)


def test_a_skew_is_what_it_says() -> None:
    images = Labeled(
        torch.zeros(7, 3, 1, 1, dtype=torch.uint8),
        torch.tensor([[0, 0], [0, 0], [0, 0], [0, 2], [0, 2], [0, 1], [0, -1]]),
        ("a",),
        {"size": ("small", "middle", "big")},
    )
    weights = draw_weights(images, "size=big:8")
    # small 1, middle 1, big 8 of 10; within a value images are alike; without a value none
    assert weights.tolist() == pytest.approx([1 / 30] * 3 + [0.4, 0.4, 0.1, 0])
    assert draw_weights(images, None).tolist() == pytest.approx([1 / 7] * 7)
    for words, hint in (
        ("size=big", "group=value:ratio"),
        ("sise=big:2", "Did you mean 'size'"),
        ("size=bg:2", "'big'"),
    ):
        with pytest.raises(UserError, match=hint):
            draw_weights(images, words)


def test_the_eight_positions_are_eight() -> None:
    image = torch.arange(4.0).view(1, 1, 2, 2).expand(8, 3, 2, 2)
    views = turned(image, torch.arange(8))
    assert len({tuple(view[0].flatten().tolist()) for view in views}) == 8
    assert torch.equal(views[0], image[0])


def test_rates() -> None:
    assert rate_at(0, 100, 1.0, 10) == pytest.approx(0.1)
    assert rate_at(50, 100, 1.0, 10) == pytest.approx(0.01 + 0.99 / 2)
    assert rate_at(99, 100, 1.0, 10) < 0.02


def test_the_packages_own_images_are_read() -> None:
    found = from_source("shapes", 16)
    assert found.images.shape[1:] == (3, 16, 16)
    assert found.conditions.shape[1] == 1 + len(found.attributes)
    assert int(found.conditions[:, 0].max()) < len(found.classes)


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.yaml").write_text("stepps: 3")
    assert main(["--data", "shapes", "--recipe", str(tmp_path / "r.yaml"), "--out", str(tmp_path)]) == 2
    assert "unknown key 'stepps'" in capsys.readouterr().err
    assert main(["--out", str(tmp_path)]) == 2
    assert "--blood" in capsys.readouterr().err
