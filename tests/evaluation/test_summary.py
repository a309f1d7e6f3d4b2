"""The lines a person reads, and paths to single numbers."""

import pytest

from conceptlens.core.errors import UserError
from conceptlens.evaluation.summary import text_table, value_at

METRICS = {
    "class": {"n": 8, "accuracy": 0.875, "balanced_accuracy": 0.8333333, "macro_auc": None, "confusion": [[1]]},
    "concept": {"balanced_accuracy": 0.5, "groups_at_chance": {"count": 2, "names": ["border", "signs"]}},
    "rank": {"published": 140.25, "effective": 9.9996},
    "codebook": {"use": 0.75, "dead": [1, 2]},
    "slots": {"assignment_entropy": 0.5, "empty_slots": []},
    "intervals": {"class.accuracy": [0.5, 1.0], "class.balanced_accuracy": [None, None]},
}


def test_a_line_for_each_number_there_is() -> None:
    assert text_table(METRICS).splitlines() == [
        "  class accuracy                   0.875   0.500 to 1.000",
        "  class balanced accuracy          0.833",
        "  concept balanced accuracy        0.500",
        "  rank of patches (published)      140.2",
        "  rank of patches (effective)     10.000",
        "  codes in use                     0.750",
        "  assignment entropy / max         0.500",
        "  groups at chance                 border, signs",
        "  dead codes                           2",
    ]


def test_nothing_known_is_no_error() -> None:
    assert text_table({}) == "  concepts                      none are read by this method"
    assert text_table({"concept": {}}) == ""


def test_values_by_their_path() -> None:
    assert value_at(METRICS, "class.accuracy", "training.select") == 0.875
    assert value_at(METRICS, "rank.published", "x") == 140.25
    for path, message in (
        ("class.acuracy", "training.select .*Did you mean 'class.accuracy'"),
        ("accuracy", "Did you mean 'class.accuracy'"),
        ("class", "has no value"),
        ("class.confusion", "has no value"),
        ("class.macro_auc", "has no value on these validation images"),
        ("class.accuracy.more", "Unknown metric"),
    ):
        with pytest.raises(UserError, match=message):
            value_at(METRICS, path, "training.select")
