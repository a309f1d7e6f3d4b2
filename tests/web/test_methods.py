"""What the page says of methods is complete, and true of the models themselves."""

from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import conceptlens as cl
from conceptlens.core import registry
from conceptlens.core.registry import METHODS
from conceptlens.methods import cards
from conceptlens.testing import build
from conceptlens.web.views.method_cards import method_cards
from conceptlens.workflows.compare.supervision_blocks import TITLES

PLACES = {"encoder", "reads", "gather", "slots", "score", "text", "concepts", "decide", "bypass", "beside"}


def test_every_registered_method_has_a_card_and_no_other() -> None:
    assert set(method_cards()) == set(METHODS.entries)
    assert next(iter(method_cards())) == "ivq-cbm"
    files = [file for file in resources.files("conceptlens.methods.cards").iterdir() if file.name.endswith(".md")]
    assert len(files) == len({tuple(card.family) for card in method_cards().values()})


@pytest.mark.parametrize("name", METHODS.names())
def test_a_card_is_three_sentences_and_a_picture(name: str) -> None:
    card = method_cards()[name]
    assert len(card.sentences) == 3
    for sentence in (*card.sentences, *([card.variant] if card.variant else [])):
        assert sentence[0].isupper()
        assert sentence.endswith(".")
        assert ". " not in sentence, "one sentence each"
        assert len(sentence) < 240
    assert card.scheme.own, "something is its own"
    assert set(card.scheme.own) <= PLACES
    for place in set(card.scheme.own) - {"text"}:
        assert getattr(card.scheme, place), f"{place} is marked and empty"
    assert (card.scheme.gather is None) == (card.scheme.slots is None)
    assert (card.scheme.score is None) == (card.scheme.concepts is None)
    assert card.name in card.family
    assert card.variant or card.family[0] == name
    assert name in card.command
    assert card.supervision_title == TITLES[card.supervision]


@pytest.mark.parametrize("name", METHODS.names())
def test_a_card_says_what_the_model_says_of_itself(name: str) -> None:
    card, model = method_cards()[name], build(name).model
    assert card.supervision == model.supervision
    assert bool(card.bypass) == bool(model.bypass)
    assert (card.attention, card.evidence) == (model.has_attention, model.has_evidence)
    assert card.scheme.text == model.uses_text if model.reads_concepts else not card.scheme.text
    assert bool(card.scheme.concepts) == model.reads_concepts
    assert (card.scheme.reads == "layers") == model.needs_layers
    if model.has_attention:
        assert card.scheme.slots


def test_the_address(client: Any) -> None:
    answer = client.get("/api/v1/methods")
    assert [each["name"] for each in answer.json()["methods"]] == list(method_cards())
    assert client.get("/api/v1/methods", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
    single = client.get("/api/v1/methods/ivq-cbm/evidence").json()["runs"]
    assert [card["key"] for card in single] == ["slots"]
    error = client.get("/api/v1/methods/ivq/evidence").json()["error"]
    assert (error["code"], "ivq-cbm" in error["message"]) == ("not-found", True)


def test_a_registered_method_brings_its_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    card = (Path(cards.__file__).parent / "cbm.md").read_text("utf-8").replace("title: CBM", "title: Pond")
    (tmp_path / "pond.md").write_text(card.replace("  cbm: {}", "  pond: {}"), "utf-8")
    monkeypatch.setattr(METHODS, "entries", dict(METHODS.entries))
    for known in (registry.PRESETS, registry.CARDS):
        monkeypatch.setitem(known, "pond", "")  # and away again
        monkeypatch.delitem(known, "pond")
    cl.register_method("pond", METHODS.get("cbm"), card=tmp_path / "pond.md")
    assert list(method_cards())[-1] == "pond"
    assert method_cards()["pond"].command == "conceptlens train RECIPE --method pond"
    monkeypatch.setitem(registry.CARDS, "pond", "no front matter")
    with pytest.raises(cl.UserError, match="the card of pond: expected front matter"):
        method_cards()
