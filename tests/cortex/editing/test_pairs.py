"""Table 5 against a loop over images, and an edit in all its parts."""

import pytest
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.cortex.editing.edit import edit_image, strip
from conceptlens.cortex.editing.pairs import judge_pairs
from conceptlens.cortex.editing.region import parse_region
from conceptlens.cortex.editing.search import search_embeddings, search_tokens
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.cortex.extractors.trained import InformationExtractor
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.samples import Generated
from tests.cortex.tiny import GRID, TinyVQ

SETTINGS = SearchSettings(steps=6, learning_rate=0.5, objective="logit", record_every=2)
MASK = parse_region("center 4x4", GRID)


def study() -> tuple[TinyVQ, InformationExtractor, Generated]:
    torch.manual_seed(0)
    model = TinyVQ()
    extractor = InformationExtractor.make("RE", model.codebook, GRID, model.classes, filters=8).eval()
    return model, extractor, Generated(model, {name: Condition(name) for name in model.classes}, 3)


def colors(images: Tensor) -> Tensor:
    """A judge: the shares of red, green and blue light."""
    light = images.mean((2, 3))
    return light / light.sum(1, keepdim=True)


def test_rows_are_those_of_a_loop() -> None:
    model, extractor, stream = study()
    samples = stream.all()
    rows = judge_pairs(
        model, extractor, samples, [("red", "blue")], MASK, {"light": colors}, images=2, settings=SETTINGS, batch=3
    )
    assert [row.method for row in rows] == ["embeddings", "tokens"]
    old, new, right = [], [], []
    for original, target in ((0, 2), (2, 0)):
        for tokens in samples.of(original, 2):
            wanted = torch.tensor([target])
            codebook = model.codebook.detach()
            found = search_embeddings(extractor, codebook, wanted, MASK, tokens=tokens[None], settings=SETTINGS)
            before, after = colors(model.decode(tokens[None]))[0], colors(model.decode(found.tokens))[0]
            old.append((before[original], before[target]))
            new.append((after[original] - before[original], after[target] - before[target]))
            right.append(float(before.argmax() == original))
    row = rows[0]
    mean = tuple(
        torch.tensor([[float(part.detach()) for part in row] for row in rows_]).mean(0) for rows_ in (old, new)
    )
    assert (row.original, row.target) == pytest.approx(tuple(mean[0].tolist()), abs=1e-6)
    assert (row.original_change, row.target_change) == pytest.approx(tuple(mean[1].tolist()), abs=1e-6)
    assert row.accuracy == pytest.approx(sum(right) / 4)
    assert row.images == 4
    with pytest.raises(UserError, match="one pair"):
        judge_pairs(model, extractor, samples, [], MASK, {})


def test_an_edit_tells_what_changed() -> None:
    model, extractor, stream = study()
    tokens = stream.all().of(0)[0]
    edit = edit_image(model, extractor, tokens, MASK, "green", settings=SETTINGS, seed=3)
    same = search_tokens(
        extractor, model.codebook.detach(), torch.tensor([1]), MASK, tokens=tokens[None], settings=SETTINGS, seed=3
    )
    assert torch.equal(edit.found.tokens, same.tokens)
    told = edit.to_json()
    assert [entry["step"] for entry in told["path"]] == [0, 2, 4, 5]
    after = tokens.clone()
    for place in told["changed"]:
        assert after[place["row"], place["column"]] == place["from"]
        after[place["row"], place["column"]] = place["to"]
    assert torch.equal(after, edit.found.tokens[0])
    assert told["probability_after"] == pytest.approx(
        float(extractor(model.embed(after[None])).softmax(1)[0, 1].detach()), abs=1e-6
    )
    frames = strip(model, edit, 3)
    assert frames.shape == (5, 3, 32, 32)
    torch.testing.assert_close(frames[0], model.decode(tokens[None])[0].detach())
    torch.testing.assert_close(frames[-1], model.decode(after[None])[0].detach())


def test_bad_edits_are_said() -> None:
    model, extractor, stream = study()
    tokens = stream.all().of(0)[0]
    with pytest.raises(UserError, match="Did you mean 'tokens'"):
        edit_image(model, extractor, tokens, MASK, "green", method="token")
    with pytest.raises(UserError, match="Did you mean 'green'"):
        edit_image(model, extractor, tokens, MASK, "gren")
    with pytest.raises(UserError, match="mask for"):
        edit_image(model, extractor, tokens, MASK[:4], "green")
    with pytest.raises(UserError, match="another codebook"):
        edit_image(TinyVQ(seed=1), extractor, tokens, MASK, "green")
