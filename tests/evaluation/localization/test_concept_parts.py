"""Which region a concept should look at."""

import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.evaluation.localization.concept_parts import concept_parts

NAMES = ("object", "nucleus", "Cell")


def test_the_concept_files_parts_and_the_recipes(concepts: ConceptSet) -> None:
    assert concept_parts(concepts, NAMES, {}).tolist() == [2, 2, 1, 1, -1]  # `Cell` is cell; extras have no part
    assert concept_parts(concepts, ("object",), {}).tolist() == [-1] * 5  # the data knows none of them
    given = {"size: big": "object", "size": "nucleus", "extras": "cell"}  # a concept wins over its group
    assert concept_parts(concepts, NAMES, given).tolist() == [0, 1, 1, 1, 2]


def test_unknown_names(concepts: ConceptSet) -> None:
    with pytest.raises(
        UserError, match=r"data.regions.concepts: Unknown concept or group 'colr'. Did you mean 'color'"
    ):
        concept_parts(concepts, NAMES, {"colr": "nucleus"})
    with pytest.raises(UserError, match=r"data.regions.concepts: color: Unknown part 'nuclei'. Did you mean 'nucleus'"):
        concept_parts(concepts, NAMES, {"color": "nuclei"})
