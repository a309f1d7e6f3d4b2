"""What is suggested for a name that does not exist: by its last part, by meaning, by its letters."""

import pytest

from conceptlens.core.errors import SYNONYMS, closest, did_you_mean, suggestions
from conceptlens.core.registry import METHODS
from conceptlens.core.system_errors import reason
from conceptlens.recipes.parse import recipe_keys


@pytest.mark.parametrize(
    ("typed", "options", "meant"),
    [
        ("cmb", ["cbm", "cem", "pcbm"], "cbm"),  # the same letters in another order before one letter that differs
        ("cbn", ["cbm", "cem", "pcbm"], "cbm"),
        ("epochs", ["training.epochs", "training.ema"], "training.epochs"),
        ("LR", ["training.learning_rate", "seed"], "training.learning_rate"),
        ("--gpu", ["--device", "--debug"], "--device"),
        ("check", ["data check", "data"], "data check"),
        ("Batch_Size", ["batch-size", "batch"], "batch-size"),
        ("cmb", ["blood-cells/cem", "blood-cells/cbm"], "blood-cells/cbm"),
        ("cem", ["blood-cells/cem", "blood-cells/cbm"], "blood-cells/cem"),
    ],
)
def test_one_suggestion(typed: str, options: list[str], meant: str) -> None:
    assert did_you_mean(typed, options) == f"Did you mean {meant!r}?"


def test_a_method_with_letters_swapped() -> None:
    assert suggestions("cmb", METHODS.names()) == ["cbm"]


def test_several_places_are_named() -> None:
    assert did_you_mean("name", ["encoder.name", "method.name"]) == "Did you mean 'encoder.name' or 'method.name'?"


def test_nothing_close_lists_what_exists() -> None:
    assert did_you_mean("zzz", ["b", "a"]) == "Available: 'a', 'b'."
    assert did_you_mean("zzz", [f"option {n:02}" for n in range(14)], listing=2).endswith("and 12 more.")
    assert did_you_mean("zzz", []) == "None exist here."
    assert closest("border", ["boarder", "signs"], cutoff=0.85) == "boarder"
    assert closest("border", ["signs"], cutoff=0.85) is None


def test_words_for_settings_lead_to_keys_that_exist() -> None:
    keys = recipe_keys()
    for word in (
        "lr",
        "batch",
        "wd",
        "backbone",
        "dataset",
        "resolution",
        "random-seed",
        "label-column",
        "amp",
        "num-workers",
    ):
        assert any(suggestions(word, keys)), word
        assert SYNONYMS[word][0].replace("-", "_") in {key.rpartition(".")[2] for key in suggestions(word, keys)}, word


def test_torchvision_of_another_build_is_no_bug_of_ours() -> None:
    assert "torch and torchvision" in str(reason(RuntimeError("operator torchvision::nms does not exist")))
    assert reason(RuntimeError("something else")) is None
