"""The student's training, on a network of a few thousand weights and teachers that draw lines."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.builtin.vit import BuiltinViT
from conceptlens.encoders.weights_file import read_weights
from pretraining.imagenet import WNIDS
from pretraining.images.unseen import read_unseen
from pretraining.student.losses import (
    axis_loss,
    class_loss,
    direction_loss,
    diversity_loss,
    grid_to_patches,
    relation_loss,
    text_loss,
)
from pretraining.student.pool import Pool, Source, split_off
from pretraining.student.ring import Ring, mirror
from pretraining.student.settings import Settings, Stage, read_settings
from pretraining.student.teach import Panel
from pretraining.student.train import Run, rate_at, train
from pretraining.student.views import ViewStyle, draw_views, jitter, mix, render, whole_views
from pretraining.student.wordings import cell_axes, class_wordings
from pretraining.teachers.contract import Classifier, TeacherOutput


class Lines(Classifier):
    """A teacher without weights to load: a fixed random projection of pixels."""

    name = "lines"

    def __init__(self) -> None:
        super().__init__(size=32)
        generator = torch.Generator().manual_seed(5)
        self.weight = torch.nn.Parameter(torch.randn(6, 3, 8, 8, generator=generator), requires_grad=False)
        self.classifier = torch.nn.Linear(6, 1000, bias=False)
        self.classifier.weight.data = torch.randn(1000, 6, generator=generator)

    def features(self, images: Tensor) -> TeacherOutput:
        grid = F.conv2d(images, self.weight, stride=8)
        pooled = grid.mean((2, 3))
        return TeacherOutput(self.classifier(pooled), pooled, grid)


class Words:
    name, width = "words", 12

    def embed(self, texts: list[str]) -> Tensor:
        rows = [torch.randn(12, generator=torch.Generator().manual_seed(sum(map(ord, text)))) for text in texts]
        return F.normalize(torch.stack(rows), dim=-1)


def source(number: int = 12, attributes: bool = False) -> Source:
    generator = torch.Generator().manual_seed(number)
    pixels = torch.randint(256, (number, 3, 24, 24), generator=generator, dtype=torch.uint8)
    columns = len(cell_axes()[0])
    rows = torch.zeros(number, columns, dtype=torch.int64) if attributes else torch.full((number, columns), -1)
    classes = torch.full((number,), -1) if attributes else torch.arange(number) % 3
    return Source(pixels, classes, rows, ViewStyle())


def settings(steps: int = 4) -> Settings:
    stages = {
        "trunk": Stage({"imagenette": 1.0}, steps),
        "end": Stage({"imagenette": 0.5, "blood": 0.5}, steps, falling=True, start="trunk"),
    }
    return Settings(
        batch=8,
        fresh=4,
        ring=16,
        warmup=2,
        watch=3,
        save_every=100,
        teachers={"lines": 32},
        grids={"lines": 4},
        alike=("lines",),
        stages=stages,
    )


def run(out: Path, stage: str = "trunk", steps: int = 4) -> Run:
    torch.manual_seed(0)
    encoder = BuiltinViT(
        image_size=16, width=12, depth=1, heads=2, stem_width=4, text_width=12, final_norm=True, pretrained=False
    )
    sources = {"imagenette": source(), "blood": source(7, attributes=True)}
    words = class_wordings(None)[:2]
    return Run(settings(steps), stage, sources, [Lines().eval()], words, Words(), out, torch.device("cpu"), encoder)


@pytest.mark.slow
def test_a_stopped_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    straight, halved = run(tmp_path / "a"), run(tmp_path / "b", steps=2)
    assert train(straight)
    assert train(halved)
    assert straight.step == 4
    # The moments are rounded where a checkpoint is written: compare with a run that wrote one there too.
    saved = run(tmp_path / "c")
    saved.start()
    saved.fill()
    for _ in range(2):
        saved.learn()
    saved.save(0)
    for _ in range(2):
        saved.learn()
    resumed = run(tmp_path / "b")
    assert train(resumed)
    for (name, one), two in zip(saved.student.state_dict().items(), resumed.student.state_dict().values(), strict=True):
        assert torch.equal(one, two), name


def test_stages_follow_each_other_and_the_encoder_is_exported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Train stage trunk first"):
        train(run(tmp_path, "end"))
    assert train(run(tmp_path))
    second = run(tmp_path, "end")
    assert train(second)
    weights = read_weights(tmp_path / "end" / "vit.safetensors")
    assert weights.keys() == second.encoder.state_dict().keys()
    assert all(value.dtype == torch.float16 for value in weights.values())
    lines = (tmp_path / "end" / "log.jsonl").read_text().splitlines()
    assert '"prompt_accuracy"' in lines[-1]


def test_time_limit_stops_and_saves(tmp_path: Path) -> None:
    assert not train(run(tmp_path), seconds=0)
    assert (tmp_path / "trunk" / "checkpoint" / "note.json").exists()
    assert train(run(tmp_path))


def test_names_of_unseen_classes_are_not_taught(tmp_path: Path) -> None:
    small = run(tmp_path)
    assert len(small.seen) == 980
    assert not {WNIDS[index] for index in small.seen.tolist()} & set(read_unseen())
    small.start()
    small.teach(0)
    names = small.ring.rows["names"][: small.settings.fresh].float()
    assert names.shape[1] == 980
    assert torch.allclose(names.sum(1), torch.ones(len(names)), atol=2e-3)


def test_rate() -> None:
    one = Settings(rate=1.0, warmup=4)
    assert [rate_at(step, Stage({}, 10), one) for step in (0, 3, 9)] == [0.25, 1, 1]
    assert [rate_at(step, Stage({}, 10, falling=True, start="a"), one) for step in (0, 5)] == [1, 0.5]


def test_recipe_is_readable_and_refuses_typing_errors(tmp_path: Path) -> None:
    assert list(read_settings().stages) == ["trunk", "with-blood", "without-blood"]
    (tmp_path / "r.yaml").write_text("batsch: 3")
    with pytest.raises(UserError, match="Did you mean 'batch'"):
        read_settings(tmp_path / "r.yaml")
    (tmp_path / "r.yaml").write_text("ring: 100\nfresh: 64")
    with pytest.raises(UserError, match="multiple"):
        read_settings(tmp_path / "r.yaml")


def test_losses_by_hand() -> None:
    logits, target = torch.tensor([[0.0, math.log(3)]]), torch.tensor([[0.5, 0.5]])
    assert class_loss(logits, target).item() == pytest.approx(-0.5 * math.log(0.25) - 0.5 * math.log(0.75))
    assert direction_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 3.0]])).item() == pytest.approx(1 - 0.5**0.5)
    texts = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    target = torch.tensor([[1.0, 0.0], [0.0, 0.0]])  # the second row does not count
    expected = -math.log(math.exp(2) / (math.exp(2) + 1))
    assert text_loss(vectors, texts, target, torch.tensor(2.0)).item() == pytest.approx(expected)
    logits = torch.tensor([[0.0, 0.0, 1.0, 1.0, 1.0], [5.0, 0.0, 0.0, 0.0, 9.0]])
    labels = torch.tensor([[1, 2], [-1, -1]])
    assert axis_loss(logits, labels, (2, 3)).item() == pytest.approx((math.log(2) + math.log(3)) / 2)


def test_diversity_is_zero_for_independent_channels_of_unit_spread() -> None:
    patches = torch.tensor([[[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]])
    assert diversity_loss(patches).item() == pytest.approx(0, abs=1e-4)
    same = patches[..., :1].expand(1, 4, 2)  # two channels that say the same: 2 · 1² / 2 / 25
    assert diversity_loss(same).item() == pytest.approx(0.04, abs=1e-4)
    assert diversity_loss(torch.ones(1, 4, 2)).item() == pytest.approx(0.99, abs=1e-3)


def test_relation_compares_how_an_image_falls_into_parts() -> None:
    patches = torch.tensor([[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]])
    turned = torch.stack([-patches[..., 1], patches[..., 0], torch.zeros(1, 4)], -1) + 5  # turned, moved, wider
    assert relation_loss(patches, turned).item() == pytest.approx(0, abs=1e-6)
    two = torch.tensor([[[1.0], [1.0], [-1.0], [-1.0]]])
    # Cosines of `patches`: (1, −1, 0, 0), …; of `two`: (1, 1, −1, −1), …: a row differs by 0, 2, 1, 1.
    assert relation_loss(patches, two).item() == pytest.approx((0 + 4 + 1 + 1) / 4)


def test_grid_to_patches_keeps_the_order_of_rows() -> None:
    grid = torch.arange(4.0).view(1, 1, 2, 2)
    assert grid_to_patches(grid, (2, 2)).flatten().tolist() == [0, 1, 2, 3]
    assert grid_to_patches(grid, (4, 4)).shape == (1, 16, 1)


def test_views_are_where_their_maps_say() -> None:
    pixels = torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4).expand(1, 3, 4, 4)
    assert torch.equal((render(pixels, whole_views(1, torch.device("cpu")), 4) * 255).round().byte(), pixels)
    corner = torch.tensor([[[0.5, 0.0, -0.5], [0.0, 0.5, -0.5]]])  # the upper left quarter
    assert torch.equal((render(pixels, corner, 2) * 255).round().byte()[0, 0], pixels[0, 0, :2, :2])
    maps = draw_views(500, ViewStyle(scale=0.25, turns=True), torch.Generator().manual_seed(0))
    corners = torch.tensor([[x, y, 1.0] for x in (-1, 1) for y in (-1, 1)])
    assert (maps @ corners.T).abs().max() <= 1 + 1e-5
    areas = torch.linalg.det(maps[:, :, :2]).abs()
    assert areas.min() >= 0.25 - 1e-5
    assert areas.max() <= 1 + 1e-5


def test_blends_have_no_true_class_and_cells_are_not_blended() -> None:
    views = [torch.arange(40.0).view(40, 1, 1, 1).expand(40, 3, 2, 2), torch.arange(40.0).view(40, 1, 1, 1)]
    labels = {"label": torch.where(torch.arange(40) < 30, 5, -1), "trust": torch.full((40,), 0.6)}
    (small, large), after = mix(views, labels, 0.5, torch.Generator().manual_seed(0))
    changed = large.flatten() != views[1].flatten()
    assert torch.equal(small[:, 0, 0, 0], large.flatten())
    assert 5 < int(changed.sum()) < 25
    assert not changed[30:].any()
    assert float(large.flatten()[:30].max()) < 30  # no blend with what has no class
    assert (after["trust"][changed] == 0).all()
    assert (after["trust"][30:] == labels["trust"][30:]).all()
    none, _ = mix(views, labels, 0.0, torch.Generator().manual_seed(0))
    assert torch.equal(none[1], views[1])


def test_jitter_of_nothing_is_nothing_and_gray_has_no_color() -> None:
    images = torch.rand(3, 3, 4, 4)
    zero, generator = torch.zeros(3), torch.Generator().manual_seed(0)
    assert torch.allclose(jitter(images, zero, zero, generator), images, atol=1e-6)
    gray = jitter(images, zero, torch.ones(3), generator)
    assert torch.allclose(gray[:, 0], gray[:, 2], atol=1e-6)


def test_pool_keeps_the_shares_and_ring_forgets_the_oldest() -> None:
    pool = Pool({"a": source(), "b": source(7, attributes=True)}, {"a": 3, "b": 1}, 8)
    assert pool.counts == {"a": 6, "b": 2}
    (small, large), labels = pool.draw(torch.Generator().manual_seed(1), (16, 32))
    assert small.shape == (8, 3, 16, 16)
    assert large.shape == (8, 3, 32, 32)
    assert (labels["attributes"] >= 0).all(1).tolist() == [False] * 6 + [True] * 2
    with pytest.raises(UserError, match="No shards of c"):
        Pool({"a": source()}, {"c": 1}, 4)
    ring = Ring(4)
    for value in range(3):
        ring.put({"x": torch.full((2,), value)}, value)
    assert ring.rows["x"].tolist() == [2, 2, 1, 1]
    assert set(ring.draw(50, torch.Generator().manual_seed(0))["x"].tolist()) == {1, 2}


def test_mirrored_views_take_their_maps_along() -> None:
    columns = torch.arange(3.0).expand(64, 1, 2, 3)
    batch = {"pixels": columns, "grid.a": columns + 5, "names": torch.arange(64.0).view(64, 1)}
    turned = mirror(batch, torch.Generator().manual_seed(0))
    assert torch.equal(turned["grid.a"], turned["pixels"] + 5)
    assert torch.equal(turned["names"], batch["names"])
    sides = turned["pixels"][:, 0, 0].tolist()
    assert {tuple(side) for side in sides} == {(0, 1, 2), (2, 1, 0)}


def test_place_is_where_the_true_class_is_seen() -> None:
    views = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    teacher = Lines().eval()
    panel = Panel([teacher], {"lines": 6})
    panel.fit(views)
    label, trust = torch.tensor([3, -1, 3, 3, 3, 3, 3, 3]), torch.ones(8)
    said = panel(views, label, trust)
    assert torch.equal(said.classes[0].float(), F.one_hot(torch.tensor(3), 1000).float())
    grid, weights = teacher(views).grid, teacher.classifier.weight.detach()
    places = [[float(grid[0, :, y, x].detach() @ (weights[3] - weights.mean(0))) for x in range(4)] for y in range(4)]
    expected = torch.tensor(places)
    expected = (expected - expected.mean()) / expected.std(correction=0)
    assert torch.allclose(said.place[0, 0].float(), expected, atol=5e-3)
    assert torch.allclose(said.classes[1].float(), teacher(views).logits[1].softmax(-1), atol=1e-3)


def test_watched_images_do_not_train() -> None:
    rest, watched = split_off(source(12), 4)
    assert (len(rest.pixels), len(watched.pixels)) == (8, 4)
    assert not any(torch.equal(one, two) for one in rest.pixels for two in watched.pixels)


def test_panel_standardizes_and_keeps_the_strongest_components() -> None:
    views = torch.rand(64, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    teacher = Lines().eval()
    panel = Panel([teacher], {"lines": 6})
    panel.fit(views, batch=20)
    said = panel(views, torch.full((64,), -1), torch.ones(64))
    assert torch.allclose(said.pooled["lines"].float().mean(0), torch.zeros(6), atol=1e-2)
    assert torch.allclose(said.pooled["lines"].float().std(0), torch.ones(6), atol=1e-2)
    assert torch.allclose(said.classes.float(), teacher(views).logits.softmax(-1), atol=1e-3)
    rows = said.grids["lines"].float().permute(0, 2, 3, 1).flatten(0, 2)
    covariance = rows.T @ rows / len(rows)
    spread = covariance.diagonal()
    assert (spread[:-1] >= spread[1:] - 1e-3).all()
    assert (covariance - spread.diag()).abs().max() < 2e-2
    # Each component keeps √λ of its variance λ: their squares add up to the variance of the channels.
    grid = teacher(views).grid.permute(0, 2, 3, 1).flatten(0, 2)
    assert spread.square().sum().item() == pytest.approx(grid.var(0, correction=0).sum().item(), rel=2e-2)
