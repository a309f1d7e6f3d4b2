"""From stored scores to what the head reads, for every registered method; and the commands."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import conceptlens as cl
from conceptlens.cli import main
from conceptlens.core.errors import UserError
from conceptlens.core.registry import METHODS
from conceptlens.core.upgrades import SCHEMA
from conceptlens.evaluation.interventions.measure import Interventions, measure_interventions
from conceptlens.evaluation.interventions.value_map import fit_map
from conceptlens.evaluation.interventions.what_if import apply, one_of
from conceptlens.evaluation.leakage.leakage import Leakage
from conceptlens.methods.contract import ConceptModel, ConceptOutput, Pipeline
from conceptlens.nn.heads.bottleneck import log_probability
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.predictions import StoredPredictions, load_predictions
from conceptlens.runs.readout import read_out
from conceptlens.stats.estimates import Bootstrap
from conceptlens.testing import build, images, source
from tests.conftest import Refuse
from tests.evaluation.trust.world import CONCEPTS, clean, in_probabilities
from tests.training.tiny import tiny


def stored(output: ConceptOutput, *, with_bottleneck: bool) -> StoredPredictions:
    n = len(output.logits)
    examples = source().examples
    return StoredPredictions(
        ids=tuple(map(str, range(n))),
        units=tuple(map(str, range(n))),
        classes=source().classes,
        task="single",
        logits=output.logits.detach().numpy(),
        concept_logits=output.concept_logits.detach().numpy(),
        labels=examples.labels[:n],
        concepts=examples.concepts[:n],
        thresholds=(0.5,) * len(source().classes),
        bottleneck=output.bottleneck.detach().numpy() if with_bottleneck else None,
        context=None if output.context is None else output.context.detach().half().numpy(),
    )


@pytest.mark.parametrize("name", METHODS.names())
def test_every_method_can_be_read_and_corrected(name: str) -> None:
    pipeline: Pipeline = build(name)
    with torch.no_grad():
        output = pipeline(images())
    kept = stored(output, with_bottleneck=True)
    if not pipeline.model.reads_concepts:
        with pytest.raises(UserError, match="reads no concepts"):
            read_out(pipeline.model, kept, source().concepts)
        return
    found = read_out(pipeline.model, kept, source().concepts)
    np.testing.assert_allclose(found.logits(found.bottleneck), kept.logits, rtol=1e-3, atol=1e-3)
    measured = measure_interventions(found, Bootstrap(found.units, 20), orders=["expected gain"])
    assert len(measured.curves[0].points) == len(source().concepts.groups) + 1
    assert (measured.bypass is None) == (pipeline.model.bypass is None)


def test_a_correction_of_cem_chooses_between_the_images_own_embeddings() -> None:
    pipeline = build("cem")
    with torch.no_grad():
        output = pipeline(images())
        kept = stored(output, with_bottleneck=True)
        wanted = 1 - output.bottleneck  # the opposite of everything
        assert output.context is not None
        expected = pipeline.model.decide_within(wanted, output.context)
    found = read_out(pipeline.model, kept, source().concepts)
    opposite = wanted.double().numpy()
    np.testing.assert_allclose(found.logits(opposite), expected.numpy(), atol=5e-3)
    rows = np.array([4, 1, 1])
    np.testing.assert_allclose(found.logits(opposite[rows], rows), expected.numpy()[rows], atol=5e-3)
    one = one_of(found, "2")
    assert one is not None
    np.testing.assert_allclose(one.logits(opposite[2:3]), expected.numpy()[2:3], atol=5e-3)
    # An older run keeps no embeddings: what the average image's say, with the rest of the image added.
    alone = read_out(pipeline.model, replace(kept, context=None), source().concepts)
    assert np.abs(alone.logits(opposite) - expected.numpy()).max() > 2e-2


def test_a_run_of_cem_keeps_what_its_corrections_need(tmp_path: Path) -> None:
    run = cl.train(tiny(tmp_path / "run", method="cem", regularizer="none"), quiet=True)
    kept = load_predictions(run.path)
    assert kept.context is not None
    assert kept.context.shape == (len(kept.ids), 2 * 16 * kept.concept_logits.shape[1])
    found = OpenedRun.open(run.path).readout()
    np.testing.assert_allclose(found.logits(found.bottleneck), kept.logits, atol=1e-5)
    assert np.abs(found.rest).max() < 1e-2  # nothing but rounding


def test_runs_that_keep_no_bottleneck_follow_their_space(own_run: Path) -> None:
    found = OpenedRun.open(own_run).readout()
    kept = load_predictions(own_run)
    np.testing.assert_allclose(found.logits(found.bottleneck), kept.logits, atol=1e-3)
    exclusive = torch.as_tensor(found.concepts.exclusive)
    wanted = log_probability(torch.from_numpy(found.concept_probabilities), exclusive).numpy()
    np.testing.assert_allclose(found.bottleneck, wanted, atol=1e-4)
    rebuilt = read_out(OpenedRun.open(own_run).pipeline.model, replace(kept, bottleneck=None), found.concepts)
    np.testing.assert_allclose(rebuilt.bottleneck, wanted, atol=1e-4)
    assert found.head is not None


class Odd(ConceptModel):
    """A head that reads the square of the scores, and does not say so."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(7, 3)

    def forward(self, tokens: object) -> ConceptOutput:
        raise AssertionError

    def decide(self, bottleneck: Tensor) -> Tensor:
        logits: Tensor = self.head(bottleneck**2)
        return logits


def test_a_head_that_reads_something_else_is_refused() -> None:
    made = clean(40)
    odd = Odd()
    said = odd.head(torch.from_numpy(made.bottleneck).float()).detach().numpy()
    kept = StoredPredictions(
        made.ids,
        made.units,
        made.classes,
        "single",
        said,
        made.bottleneck.astype(np.float32),
        made.labels,
        made.truth,
        (0.5,) * 3,
    )
    with pytest.raises(UserError, match="declares no bypass"):
        read_out(odd, kept, CONCEPTS)
    read = read_out(
        odd, replace(kept, logits=odd.decide(torch.from_numpy(made.bottleneck).float()).detach().numpy()), CONCEPTS
    )
    assert read.head is None  # not linear in what it reads


def test_what_if_in_words() -> None:
    made = in_probabilities(clean(100))
    maps, image = fit_map(made, np.arange(len(made))), one_of(made, "0.png")
    assert image is not None
    assert apply(made, maps, image, ["shape=star"])[0, :3].tolist() == [0, 0, 1]
    own = image.bottleneck[0, 5]
    assert own < 0.5
    assert apply(made, maps, image, ["marks=dots"])[0, 5] == 1
    assert apply(made, maps, image, ["marks: dots=no"])[0, 5] == own  # it says so itself
    assert apply(made, maps, image, ["shape: star=yes"])[0, :3].tolist() == [0, 0, 1]
    assert apply(made, maps, image, ["colour: red=0.3"])[0, 3:5] == pytest.approx([0.3, 0.7])
    assert apply(made, maps, image, ["colour: red = score 0.9"])[0, 3] == 0.9
    np.testing.assert_allclose(
        apply(made, maps, image, ["shape=mean of two"])[0, :3], made.bottleneck[made.labels == 1, :3].mean(0)
    )
    for edit, words in (
        ("shape", "group=value"),
        ("shap=star", "Did you mean 'shape'"),
        ("shape=stair", "Did you mean 'star'"),
        ("shape=mean of twoo", "Did you mean 'two'"),
        ("colour: red=perhaps", "a probability such as 0.8"),
        ("colour: red=7", "between 0 and 1"),
    ):
        with pytest.raises(UserError, match=words):
            apply(made, maps, image, [edit])
    assert one_of(made, "3.png") is not None
    assert one_of(made, "none.png") is None


def test_commands_write_what_they_measure(own_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "trust"
    assert (
        main(["interventions", str(own_run), "--out", str(out), "--quiet", "--order", "chance", "--order", "influence"])
        == 0
    )
    assert main(["leakage", str(own_run), "--out", str(out), "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "label → class ceiling" in said
    assert "class from soft scores" in said
    found = Interventions.read(out / "interventions.json")
    assert [curve.policy for curve in found.curves] == ["chance", "influence"]
    assert found.images == Leakage.read(out / "leakage.json").images
    assert json.loads((out / "leakage.json").read_text())["schema"] == SCHEMA
    for name in ("interventions", "leakage"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_one_image_by_name_and_by_file(own_run: Path, own: object, capsys: pytest.CaptureFixture[str]) -> None:
    kept = load_predictions(own_run)
    concepts = cl.api.what_if(own_run, kept.ids[0])
    assert concepts.before == concepts.after
    groups = OpenedRun.open(own_run).readout().concepts.groups
    assert main(["what-if", str(own_run), kept.ids[0], "--set", f"{groups[0].name}={groups[0].values[0]}"]) == 0
    assert "most would be learned from" in capsys.readouterr().out


def test_a_file_is_read_as_its_image_was(own_run: Path, tmp_path: Path) -> None:
    from PIL import Image

    from conceptlens.evaluation.trust import what_if_run

    file = tmp_path / "elsewhere.png"
    Image.fromarray(np.full((40, 40, 3), 90, np.uint8)).save(file)
    told = what_if_run(OpenedRun.open(own_run), file)
    predicted = cl.api.predict(own_run, [file]).items[0]
    assert predicted.probabilities == pytest.approx(told.before.probabilities, abs=1e-4)


def test_bad_input_is_told(own_run: Path, refuse: Refuse) -> None:
    refuse("interventions", own_run, "--order", "chanse", says="Did you mean 'chance'")
    refuse("interventions", own_run, "--by", "gruops", says="Did you mean 'groups'")
    refuse("interventions", own_run, "--set", "a=b", says="conceptlens what-if RUN IMAGE --set")
    refuse("what-if", own_run, "nowhere.png", says="neither an image file nor")
    refuse("interventions", own_run, "--threshold", "2", says="from 0 to below 1")
    refuse("interventions", own_run, "--threshold", "high", says="--threshold: expected a number, found 'high'")
    refuse("leakage", own_run, "--split", "train", says="keeps no predictions")


def test_the_share_of_a_bypass_by_hand() -> None:
    scores = np.array([[2.0, 0.0, 1.0], [0.0, 2.0, 1.0]])  # less their means: ±1, ∓1, 0
    rest = np.array([[3.0, 5.0, 4.0], [4.0, 4.0, 4.0]])  # ∓0.5, ±0.5, 0: a third of what moves the scores
    made = replace(clean(60), rest=rest, bypass="a residual", decide=lambda rows: scores)
    assert made.bypass_share == pytest.approx(1 / 3)
    assert "makes up 33% of what moves" in made.describe_bypass("The class head also reads {}.")
    assert replace(made, rest=np.zeros_like(rest)).bypass_share is None
    assert replace(made, context=np.ones((2, 4), np.float16)).bypass_share is None  # the rest is rounding then
    assert clean(60).bypass_share is None
