"""CE, RE and TE: sizes as printed, training settings as printed, accuracies by hand; saved and loaded."""

import math
from pathlib import Path

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.cortex.extractors.extractors import (
    ConvolutionalExtractor,
    ResidualExtractor,
    TransformerExtractor,
    make_network,
)
from conceptlens.cortex.extractors.trained import InformationExtractor
from conceptlens.cortex.extractors.training import Epoch, ExtractorTraining, top_accuracy, train_extractor
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.samples import Generated, Samples, draw_seed, split_samples
from tests.cortex.tiny import CODES, GRID, WIDTH, TinyVQ


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_papers_sizes_follow_from_a_codebook_of_width_256() -> None:
    with torch.device("meta"):
        ce = ConvolutionalExtractor(256, (16, 16), 1000)
        re = ResidualExtractor(256, (16, 16), 1000)
        te = TransformerExtractor(256, (16, 16), 1000)
    first, rest = 256 * 512 * 9 + 512, 512 * 512 * 9 + 512
    linear = (8192 * 4096 + 4096) + (4096 * 4096 + 4096) + (4096 * 1000 + 1000)
    assert count(ce) == first + 7 * rest + 8 * 2 * 512 + linear + 2 * 2 * 4096
    squeeze = 512 * 32 + 32 + 32 * 512 + 512
    plain = 2 * 512 * 512 * 9 + 4 * 512 + squeeze
    shortcut = {256: 256 * 512 + 2 * 512, 512: 512 * 512 + 2 * 512}
    entry = 256 * 512 * 9 + 512 * 512 * 9 + 4 * 512 + squeeze + shortcut[256]
    head = 512 * 2048 + 2048 + 2 * 2048 + 2048 * 1000 + 1000
    assert count(re) == entry + (plain + shortcut[512]) + 4 * plain + head
    block = 3 * (512 * 512 + 512) + 512 * 512 + 512 + (512 * 2048 + 2048) + (2048 * 512 + 512) + 4 * 2 * 512
    around = 256 * 512 + 512 + 2 * 512 + 512 + 257 * 512 + 2 * 512 + 512 * 1024 + 1024 + 2 * 1024 + 1024 * 1000 + 1000
    assert count(te) == 12 * block + around


@pytest.mark.parametrize(("name", "options"), [("CE", {}), ("RE", {}), ("TE", {"depth": 1, "heads": 2})])
def test_networks_fit_other_grids_and_codebooks(name: str, options: dict[str, int]) -> None:
    network = make_network(name, 10, (8, 6), 4, **options)
    assert network.eval()(torch.randn(3, 10, 8, 6)).shape == (3, 4)
    network.train()(torch.randn(3, 10, 8, 6)).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_te_reads_channels_or_positions() -> None:
    channels = make_network("TE", 10, (4, 6), 2, depth=1, heads=2)
    positions = make_network("TE", 10, (4, 6), 2, depth=1, heads=2, tokens="positions")
    assert (channels.positions.shape[1], positions.positions.shape[1]) == (11, 25)


def test_rates_of_the_appendix() -> None:
    settings = ExtractorTraining()
    assert [settings.rate_at("CE", epoch * 7, 7) for epoch in (0, 19, 20, 40, 79)] == pytest.approx(
        [1e-3, 1e-3, 1e-4, 1e-5, 1e-6]
    )
    short = ExtractorTraining(epochs=12)  # whose rate would never fall by the appendix
    assert [short.rate_at("CE", epoch, 1) for epoch in (7, 8, 11)] == pytest.approx([1e-3, 1e-4, 1e-4])
    total = 80 * 10  # warm-up over 80 steps, then a cosine over 720
    assert settings.rate_at("TE", 0, 10) == pytest.approx(1e-3 / 80)
    assert settings.rate_at("TE", 79, 10) == pytest.approx(1e-3)
    assert settings.rate_at("TE", 80 + 360, 10) == pytest.approx(5e-4)
    assert settings.rate_at("TE", total - 1, 10) == pytest.approx(1e-3 * (1 + math.cos(math.pi * 719 / 720)) / 2)


def test_top_accuracy_by_hand() -> None:
    logits = torch.tensor([[5.0, 4, 3, 2], [1, 2, 3, 4], [9, 1, 2, 3]])
    assert top_accuracy(logits, torch.tensor([1, 1, 0])) == {"top-1": pytest.approx(1 / 3), "top-3": 1.0}


def stream(n: int = 40) -> Generated:
    model = TinyVQ()
    return Generated(model, {name: Condition(name) for name in model.classes}, n, chunk=8)


def test_an_extractor_learns_what_its_model_draws(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, samples = TinyVQ(), stream()
    extractor = InformationExtractor.make("RE", model.codebook, GRID, model.classes, filters=8)
    epochs = []
    settings = ExtractorTraining(epochs=8, batch=24, rate=3e-3, step_epochs=20)
    train_extractor(extractor, model.codebook.detach(), samples, test=stream(20), settings=settings, note=epochs.append)
    assert len(epochs) == 8
    assert extractor.card.accuracy["top-1"] > 0.6  # by chance a third
    extractor.save(tmp_path / "e")
    loaded = InformationExtractor.load(tmp_path / "e")
    embeddings = model.embed(samples.all().of(0)).detach()
    torch.testing.assert_close(loaded(embeddings), extractor(embeddings))
    assert loaded.card == extractor.card


def test_an_extractor_refuses_what_it_was_not_trained_for() -> None:
    model = TinyVQ()
    extractor = InformationExtractor.make("CE", model.codebook, GRID, model.classes)
    with pytest.raises(UserError, match=r"grid of 8 × 8\. Found \(1, 6, 4, 4\)"):
        extractor(torch.zeros(1, WIDTH, 4, 4))
    with pytest.raises(UserError, match="width 6; the model's codebook has width 7"):
        extractor.check_codebook(torch.zeros(CODES, WIDTH + 1))
    with pytest.raises(UserError, match="another codebook"):
        extractor.check_codebook(TinyVQ(seed=1).codebook)
    with pytest.raises(UserError, match="Did you mean 'green'"):
        extractor.concept("gren")
    with pytest.raises(UserError, match="at least two"):
        InformationExtractor.make("CE", model.codebook, GRID, ["red"])
    with pytest.raises(UserError, match="4 × 4"):
        InformationExtractor.make("CE", model.codebook, (2, 8), ["red", "blue"])
    with pytest.raises(UserError, match="the extractor was made for"):
        train_extractor(
            extractor, model.codebook.detach(), Samples(torch.zeros(2, *GRID).long(), torch.zeros(2), ("a", "b"))
        )


def test_samples_are_made_when_asked_for_and_once() -> None:
    samples = stream(20)
    asked = []
    generate = samples.model.generate
    samples.model.generate = lambda *words, **more: asked.append(words) or generate(*words, **more)  # type: ignore[method-assign]
    first = next(samples.batches(8, 0))
    assert len(asked) == 3  # one chunk of each of three concepts
    seen = list(samples.batches(8, 0))
    assert len(asked) == 9
    assert torch.equal(seen[0][0], first[0])
    again = list(samples.batches(8, 1))
    assert len(asked) == 9
    for batches in (seen, again):  # each sample once, all but the last batch full
        labels = torch.cat([labels for _, labels in batches])
        assert torch.bincount(labels).tolist() == [20, 20, 20]
        assert {len(labels) for _, labels in batches[:-1]} == {8}
    everything = sorted(tokens.flatten().tolist() for part, _ in seen for tokens in part)
    assert everything == sorted(tokens.flatten().tolist() for part, _ in again for tokens in part)


def test_splits_and_files(tmp_path: Path) -> None:
    parts = split_samples(stream(20).all(), seed=3)
    assert {name: torch.bincount(part.labels).tolist() for name, part in parts.items()} == {
        "train": [16] * 3,
        "val": [2] * 3,
        "test": [2] * 3,
    }
    parts["test"].save(tmp_path / "x.safetensors")
    loaded = Samples.load(tmp_path / "x.safetensors", CODES)
    assert torch.equal(loaded.tokens, parts["test"].tokens)
    assert loaded.concepts == ("red", "green", "blue")
    with pytest.raises(UserError, match="0 to 3"):
        Samples.load(tmp_path / "x.safetensors", 4)


def test_seeds_differ() -> None:
    seeds = {draw_seed(a, b, c) for a in range(5) for b in range(5) for c in range(5)}
    assert len(seeds) == 125
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_the_epoch_of_the_lowest_validation_loss_is_kept() -> None:
    torch.manual_seed(0)
    model = TinyVQ()
    words = {name: Condition(name) for name in model.classes}
    train, other = (Generated(model, words, 16, seed=seed).all() for seed in (0, 1))
    wrong = Samples(other.tokens, (other.labels + 1) % 3, other.concepts)  # whatever is learned makes it worse
    weights, losses = [], []
    extractor = InformationExtractor.make("RE", model.codebook, model.grid, model.classes, filters=8)
    settings = ExtractorTraining(epochs=8, batch=24, rate=3e-3, step_epochs=20)

    def note(epoch: Epoch) -> None:
        losses.append(epoch.validation_loss)
        weights.append({name: value.clone() for name, value in extractor.state_dict().items()})

    train_extractor(extractor, model.codebook.detach(), train, validation=wrong, settings=settings, note=note)
    best = weights[losses.index(min(losses))]
    assert losses.index(min(losses)) < 7
    assert all(torch.equal(value, best[name]) for name, value in extractor.state_dict().items())
