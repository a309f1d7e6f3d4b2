"""JSON out of answers: what can be read is read, nothing is made up, nothing is run."""

import pytest

from conceptlens.workflows.authoring.filters.repair import Unreadable, objects
from conceptlens.workflows.authoring.language_model.replies import read_axes, read_features, read_opinions

GOOD = [{"axis": "size", "value": "big"}, {"axis": "colour", "value": "red"}]


@pytest.mark.parametrize(
    "text",
    [
        '[{"axis": "size", "value": "big"}, {"axis": "colour", "value": "red"}]',
        'Sure:\n```json\n[{"axis": "size", "value": "big"}, {"axis": "colour", "value": "red"}]\n```\nEnjoy [1].',
        '{"features": [{"axis": "size", "value": "big"}, {"axis": "colour", "value": "red"}]}',
        '[{"axis": "size", "value": "big",}, {"axis": "colour", "value": "red"},]',
        "[{“axis”: “size”, “value”: “big”}, {“axis”: “colour”, “value”: “red”}]",
        '{"axis": "size", "value": "big"}\n{"axis": "colour", "value": "red"}',
        '[{"axis": "size", "value": "big"}, {"axis": "colour", "value": "red"}, {"axis": "sha',
        '\ufeff  ```\n[{"axis": "size", "value": "big"}, {"axis": "colour", "value": "red"}]',
        '["note", {"axis": "size", "value": "big"}, 3, {"axis": "colour", "value": "red"}]',
    ],
    ids=["plain", "fenced", "under a key", "commas", "quotes", "lines", "cut off", "open fence", "strangers"],
)
def test_forms_of_the_same_list(text: str) -> None:
    assert objects(text) == GOOD


def test_words_of_python_are_read() -> None:
    assert objects('[{"visible": True, "why": None}]') == [{"visible": True, "why": None}]


@pytest.mark.parametrize(
    "text", ["", "   ", "I cannot help with that.", "[1, 2]", "[" * 5000, '{"a":' * 3000, "{" * 100_000]
)
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(Unreadable):
        objects(text)


def test_text_is_data() -> None:
    (feature,) = read_features('[{"axis": "a\\u0000b\\nc", "value": "x", "text": "__import__(\'os\')", "part": ["p"]}]')
    assert feature.axis == "a b c"
    assert feature.text == "__import__('os')"
    assert feature.part is None


def test_long_texts_are_cut_and_long_lists_too() -> None:
    many = ",".join(f'{{"axis": "a{n}", "value": "{"v" * 500}"}}' for n in range(300))
    found = read_features(f"[{many}]")
    assert len(found) == 100
    assert len(found[0].value) == 60


def test_axes_with_what_they_stand_under() -> None:
    axes = read_axes(
        '[{"axis": "granularity"}, {"axis": "granule colour", "part": "granules", "under": {"axis": "granularity", '
        '"value": "yes"}}, {"axis": "type", "under": {"granularity": "yes"}}, {"axis": "a", "under": "b"}, '
        '{"under": 3}, {"axis": "Granularity", "part": "again"}]'
    )
    assert [axis.name for axis in axes] == ["granularity", "granule colour", "type", "a"]
    assert [axis.under for axis in axes] == [None, ("granularity", "yes"), ("granularity", "yes"), ("b", None)]
    assert axes[0].part is None


def test_opinions_by_number_and_missing_ones() -> None:
    told = read_opinions(
        '[{"number": "2.", "visible": "no", "why": "felt"}, {"number": 1}, {"number": 9, "visible": false}]', 2
    )
    assert [(each.number, each.visible, each.holds, each.names_class) for each in told] == [
        (1, True, True, False),
        (2, False, True, False),
    ]
    with pytest.raises(Unreadable, match="number 3"):
        read_opinions('[{"number": 1}, {"number": 2}]', 3)
