"""Errors in a table name every bad row, and all of them at once, with what to do."""

from pathlib import Path

import pytest
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.checks.findings import numbered_rows
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.schema import DataConfig

CONCEPTS = "classes: [benign, malignant]\ngroups:\n  border: {values: [sharp, blurred]}\n"


def test_all_bad_rows_at_once(tmp_path: Path) -> None:
    rows = ["image,class,border"]
    for number in range(6):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"{number}.png")
    rows += ["0.png,benign,sharp", "1.png,bening,shrap", "2.png,malignant,sharp", "3.png,benign,shrap"]
    rows += ["4.png,naevus,green", "5.png,naevus,sharp", "gone.png,benign,sharp"]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    with pytest.raises(UserError) as error:
        open_source(DataConfig(str(tmp_path / "t.csv")), ConceptSet.from_yaml(CONCEPTS))
    told = str(error.value)
    assert "rows 3 and 5, column 'border': 'shrap' is not a value of 'border'. Did you mean 'sharp'?" in told
    assert "row 6, column 'border': 'green'" in told
    assert "row 3, column 'class': 'bening' is not one of the classes. Did you mean 'benign'?" in told
    assert "data.rename.classes: {bening: benign}" in told
    assert "rows 6 and 7, column 'class': 'naevus'" in told
    assert "1 of 7 images are not there" in told


def test_numbers_of_rows() -> None:
    assert numbered_rows([3]) == "row 3"
    assert numbered_rows([3, 7, 9]) == "rows 3, 7 and 9"
    assert numbered_rows(list(range(20))) == "rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … (20 in all)"
