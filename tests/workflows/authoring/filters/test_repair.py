"""JSON out of answers: what can be read is read, nothing is made up, nothing is run."""

import pytest

from conceptlens.workflows.authoring.filters.repair import Unreadable, objects
from conceptlens.workflows.authoring.language_model.replies import read_features, read_groups, read_opinions

GOOD = [{"group": "size", "value": "big"}, {"group": "colour", "value": "red"}]


@pytest.mark.parametrize(
    "text",
    [
        '[{"group": "size", "value": "big"}, {"group": "colour", "value": "red"}]',
        'Sure:\n```json\n[{"group": "size", "value": "big"}, {"group": "colour", "value": "red"}]\n```\nEnjoy [1].',
        '{"features": [{"group": "size", "value": "big"}, {"group": "colour", "value": "red"}]}',
        '[{"group": "size", "value": "big",}, {"group": "colour", "value": "red"},]',
        "[{“group”: “size”, “value”: “big”}, {“group”: “colour”, “value”: “red”}]",
        '{"group": "size", "value": "big"}\n{"group": "colour", "value": "red"}',
        '[{"group": "size", "value": "big"}, {"group": "colour", "value": "red"}, {"group": "sha',
        '\ufeff  ```\n[{"group": "size", "value": "big"}, {"group": "colour", "value": "red"}]',
        '["note", {"group": "size", "value": "big"}, 3, {"group": "colour", "value": "red"}]',
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
    (feature,) = read_features(
        '[{"group": "a\\u0000b\\nc", "value": "x", "text": "__import__(\'os\')", "part": ["p"]}]'
    )
    assert feature.group == "a b c"
    assert feature.text == "__import__('os')"
    assert feature.part is None


def test_long_texts_are_cut_and_long_lists_too() -> None:
    many = ",".join(f'{{"group": "a{n}", "value": "{"v" * 500}"}}' for n in range(300))
    found = read_features(f"[{many}]")
    assert len(found) == 100
    assert len(found[0].value) == 60


def test_groups_with_what_they_stand_under() -> None:
    groups = read_groups(
        '[{"group": "granularity"}, {"group": "granule colour", "part": "granules", "under": {"group": "granularity", '
        '"value": "yes"}}, {"group": "type", "under": {"granularity": "yes"}}, {"group": "a", "under": "b"}, '
        '{"under": 3}, {"group": "Granularity", "part": "again"}]'
    )
    assert [group.name for group in groups] == ["granularity", "granule colour", "type", "a"]
    assert [group.under for group in groups] == [None, ("granularity", "yes"), ("granularity", "yes"), ("b", None)]
    assert groups[0].part is None


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


def test_the_key_of_version_0_1_is_read() -> None:
    (group,) = read_groups('[{"axis": "wing", "under": {"axis": "bird", "value": "yes"}}]')
    assert (group.name, group.under) == ("wing", ("bird", "yes"))
    assert read_features('[{"axis": "wing", "value": "long"}]')[0].group == "wing"
