"""The concept sets that come with the package: what a table, a reader and a text encoder need of each."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from conceptlens.concepts import UNKNOWN, ConceptSet, library

SIZES = {  # concepts, groups, classes
    "blood-cells": (31, 11, 5),
    "breast-ultrasound": (30, 9, 3),
    "cub-112": (112, 28, 0),
    "cub-312": (312, 28, 0),
    "dermoscopy": (39, 7, 7),
    "fundus": (21, 9, 5),
    "shapes": (36, 12, 6),
}
BLOOD_CELLS = {  # columns and values of the WBCAtt tables
    "cell_size": {"big", "small"},
    "cell_shape": {"round", "irregular"},
    "nucleus_shape": {
        "unsegmented-band",
        "unsegmented-round",
        "unsegmented-indented",
        "segmented-multilobed",
        "segmented-bilobed",
        "irregular",
    },
    "nuclear_cytoplasmic_ratio": {"low", "high"},
    "chromatin_density": {"densely", "loosely"},
    "cytoplasm_vacuole": {"yes", "no"},
    "cytoplasm_texture": {"clear", "frosted"},
    "cytoplasm_colour": {"light blue", "blue", "purple blue"},
    "granule_type": {"small", "round", "coarse", "nil"},
    "granule_colour": {"pink", "purple", "red", "nil"},
    "granularity": {"yes", "no"},
}
CUB_PARTS = {
    "back", "belly", "bill", "breast", "crown", "eye", "forehead", "leg", "nape", "tail", "throat", "wing"
}  # fmt: skip


def test_every_ready_set_is_tested() -> None:
    assert library() == sorted(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_size_and_texts(name: str) -> None:
    concepts = ConceptSet.load(name)
    assert concepts.name == name
    assert (len(concepts), len(concepts.groups), len(concepts.classes)) == SIZES[name]
    assert [text for text, count in Counter(concepts.texts).items() if count > 1] == []
    for text in concepts.texts:
        words = text.split()
        assert 2 <= len(words) <= 20, text
        assert "{" not in text
        assert text == text.strip()
        assert not text.endswith(".")
        for article, word in pairwise(words):
            if article in {"a", "an"}:
                assert (article == "an") == (word[0] in "aeio" or word.startswith(("un", "up"))), text
    assert "colored" not in concepts.to_yaml().replace("multi-colored", "")  # CUB's own names are American
    assert ConceptSet.from_yaml(concepts.to_yaml()) == concepts


@pytest.mark.parametrize("name", SIZES)
def test_columns_are_told_apart(name: str) -> None:
    concepts = ConceptSet.load(name)
    columns = [group.column for group in concepts.groups]
    for group in concepts.groups:
        if group.kind == "independent":
            columns += group.columns
    assert [column for column, count in Counter(columns).items() if count > 1] == []


def test_blood_cells_fit_the_tables() -> None:
    concepts = ConceptSet.load("blood-cells")
    assert {group.column: set(group.values) for group in concepts.groups} == BLOOD_CELLS
    assert set(concepts.classes) == {"Neutrophil", "Eosinophil", "Monocyte", "Basophil", "Lymphocyte"}
    assert concepts.parts == ["cell", "nucleus", "cytoplasm", "granules"]
    assert all(group.kind == "exclusive" for group in concepts.groups)
    assert {group.name: group.under for group in concepts.groups if group.under} == {
        "granule type": ("granularity", "yes"),
        "granule colour": ("granularity", "yes"),
    }
    labels = np.zeros((1, len(concepts)), dtype=np.int8)
    for name, value in (("granularity", "no"), ("granule type", "nil"), ("granule colour", "nil")):
        labels[0, concepts.index(name, value)] = 1
    np.testing.assert_array_equal(concepts.mask_hierarchy(labels), labels)  # the tables say nil: nothing is unknown


# What phrases and conditions must not change: runs and kept results are found by these.
FINGERPRINTS = {"blood-cells": "822db4344a432dba", "shapes": "1d6d0b05e25d0b46"}


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_what_models_learn_from_is_as_it_was(name: str) -> None:
    assert ConceptSet.load(name).fingerprint == FINGERPRINTS[name]


@pytest.mark.parametrize("name", ["blood-cells", "shapes"])
def test_every_value_has_a_phrase(name: str) -> None:
    concepts = ConceptSet.load(name)
    phrases = [concept.phrase for concept in concepts.concepts]
    assert all(phrases)
    assert len(set(phrases)) == len(phrases)
    assert all(concept.absent for concept in concepts.concepts if concepts.group(concept.group).kind == "independent")


@pytest.mark.parametrize("name", ["dermoscopy", "breast-ultrasound", "fundus"])
def test_labels_by_class_tell_the_classes_apart(name: str) -> None:
    concepts = ConceptSet.load(name)
    assert list(concepts.by_class) == list(concepts.classes)
    rows = [concepts.labels_of_class(name).tolist() for name in concepts.classes]
    for number, first in enumerate(rows):
        for second in rows[number + 1 :]:
            assert any({a, b} == {0, 1} for a, b in zip(first, second, strict=True))


def test_dermoscopy_names_every_axis_of_every_class() -> None:
    concepts = ConceptSet.load("dermoscopy")
    assert concepts.classes == ("mel", "nv", "bcc", "akiec", "bkl", "df", "vasc")
    used: set[int] = set()
    for name in concepts.classes:
        labels = concepts.labels_of_class(name)
        assert UNKNOWN not in labels
        used |= set(labels.nonzero()[0].tolist())
    assert used == set(range(len(concepts)))  # no value that no class has


def test_fundus_follows_the_severity_scale() -> None:
    concepts = ConceptSet.load("fundus")
    assert concepts.classes == ("0", "1", "2", "3", "4")
    assert concepts.group("macular oedema risk").column == "Risk of macular edema"
    label = {
        grade: dict(zip(concepts.names, concepts.labels_of_class(grade), strict=True)) for grade in concepts.classes
    }
    only_microaneurysms = {concept for concept, value in label["1"].items() if value != label["0"][concept]}
    assert only_microaneurysms == {"microaneurysms: none", "microaneurysms: few"}
    for sign in ("venous beading: yes", "intraretinal microvascular abnormalities: yes"):
        assert [label[grade][sign] for grade in concepts.classes] == [0, 0, 0, 1, UNKNOWN]
    assert [label[grade]["neovascularisation: yes"] for grade in concepts.classes] == [0, 0, 0, 0, 1]


def test_a_normal_breast_has_no_mass_to_describe() -> None:
    concepts = ConceptSet.load("breast-ultrasound")
    normal = concepts.labels_of_class("normal")
    assert normal[:2].tolist() == [1, 0]
    assert set(normal[2:].tolist()) == {UNKNOWN}
    for name in ("benign", "malignant"):
        assert UNKNOWN not in concepts.labels_of_class(name)
    assert set(concepts.levels.values()) == {0, 1}


def test_cub_sets_keep_the_attributes_and_their_order() -> None:
    full, part = ConceptSet.load("cub-312"), ConceptSet.load("cub-112")
    names = [column for group in full.groups for column in group.columns]
    assert len(set(names)) == 312
    # Places in CUB's own numbering, which starts at 1.
    assert [names.index(name) + 1 for name in ("has_bill_shape::curved_(up_or_down)", "has_wing_color::buff")] == [
        1,
        24,
    ]
    assert names[54] == "has_breast_pattern::solid"
    assert names[135:137] == ["has_eye_color::blue", "has_eye_color::brown"]
    assert names[-1] == "has_wing_pattern::multi-colored"
    kept = [column for group in part.groups for column in group.columns]
    places = [names.index(name) for name in kept]
    assert places == sorted(places)
    assert places[:8] == [1, 4, 6, 7, 10, 14, 15, 20]
    assert places[-4:] == [308, 309, 310, 311]
    assert [full.concepts[place] for place in places] == list(part.concepts)
    assert [group.name for group in part.groups] == [group.name for group in full.groups]


def test_cub_parts_and_hierarchy() -> None:
    concepts = ConceptSet.load("cub-312")
    assert set(concepts.parts) == CUB_PARTS
    assert {group.name for group in concepts.groups if group.part is None} == {"size", "shape", "primary colour"}
    assert all(group.kind == "independent" for group in concepts.groups)
    assert [concepts.levels[name] for name in ("primary colour", "upperparts colour", "back colour")] == [0, 1, 2]
    assert concepts.texts[concepts.index("bill shape", "dagger")].startswith("a bird with a dagger-shaped bill")


@pytest.mark.parametrize(
    ("name", "placeless"),
    {
        "blood-cells": {"cytoplasm vacuole: no", "granularity: no", "granule type: nil", "granule colour: nil"},
        "dermoscopy": {"vessels: none"},
        "shapes": set(),
        "cub-312": set(),
    }.items(),
)
def test_values_without_a_place(name: str, placeless: set[str]) -> None:
    concepts = ConceptSet.load(name)
    assert {concepts.names[k] for k in np.flatnonzero(concepts.placeless)} == placeless


def test_no_sign_of_retinopathy_has_no_place() -> None:
    concepts = ConceptSet.load("fundus")
    assert concepts.placeless[concepts.index("macular oedema risk", "0")]
    assert concepts.placeless[concepts.index("neovascularisation", "no")]
    assert not concepts.placeless[concepts.index("microaneurysms", "few")]
