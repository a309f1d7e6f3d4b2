"""Other people's names for the same things."""

import io
from pathlib import Path
from typing import Any

import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.checks.findings import Problems
from conceptlens.data.dataset import Task
from conceptlens.data.labels.columns import Columns, read_csv
from conceptlens.data.labels.rename import check_rename, rename_class, rename_table
from conceptlens.data.sources.folder import Folder
from conceptlens.data.sources.table import Table
from conceptlens.recipes.schema import DataConfig, RenameConfig
from tests.data.conftest import Paint


def table_of(text: str) -> Columns:
    return read_csv(io.BytesIO(text.encode()), "theirs.csv", Problems(), expect="image")


def column(table: Columns, name: str) -> list[str]:
    found = table.find(name)
    assert found is not None
    return list(found.texts())


def config(task: Task = "single", **rename: Any) -> DataConfig:
    return DataConfig("theirs.csv", task=task, rename=RenameConfig(**rename))


THEIRS = """image,class,Grain,signs,vacuole
1.png,PMN,Fine,dots; stripes,yes
2.png,mono,none,bands;dots,no
3.png,Blast,FINE,none,
4.png,,rough,,yes
"""


def test_classes_columns_and_values(cells: ConceptSet) -> None:
    renamed = rename_table(
        table_of(THEIRS),
        config(
            classes={"pmn": "Neutrophil", "MONO": "Monocyte", "blast": None},
            columns={"granule type": "grain"},
            values={
                "granule type": {"fine": "small", "rough": "coarse", "none": "nil"},
                "signs": {"dots": "spots", "bands": "stripes"},
            },
        ),
        cells,
    )
    assert column(renamed, "class") == ["Neutrophil", "Monocyte", ""]
    assert column(renamed, "granule_type") == ["small", "nil", "coarse"]
    assert column(renamed, "signs") == ["spots;stripes", "stripes;spots", ""]
    assert column(renamed, "vacuole") == ["yes", "no", "yes"]
    assert renamed.find("Grain") is None
    assert renamed.rows.tolist() == [2, 3, 5]  # messages still name the rows of the file


def test_nothing_to_rename_is_the_same_table(cells: ConceptSet) -> None:
    table = table_of(THEIRS)
    assert rename_table(table, config(), cells) is table


def test_several_classes_an_image(cells: ConceptSet) -> None:
    """A class that is left out goes from its images' lists; the images stay for their other classes."""
    table = table_of("image,class\n1.png,PMN; Blast\n2.png,mono;pmn\n3.png,none\n")
    renamed = rename_table(
        table, config("multilabel", classes={"PMN": "Neutrophil", "mono": "Monocyte", "Blast": None}), cells
    )
    assert column(renamed, "class") == ["Neutrophil", "Monocyte;Neutrophil", "none"]


def test_several_of_their_words_may_mean_one_value(cells: ConceptSet) -> None:
    values = {"granule type": {"fine": "small", "tiny": "small"}}
    renamed = rename_table(table_of("image,granule_type\n1,Fine\n2,tiny\n3,coarse\n"), config(values=values), cells)
    assert column(renamed, "granule type") == ["small", "small", "coarse"]


def test_spelling_does_not_matter() -> None:
    rename = RenameConfig(classes={"Basal-cell carcinoma": "bcc", "other": None})
    assert rename_class("basal_cell  CARCINOMA", rename) == "bcc"
    assert rename_class("Other", rename) is None
    assert rename_class("nevus", rename) == "nevus"


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ({"columns": {"granul type": "grain"}}, "rename.columns: 'granul type' .* Did you mean 'granule type'"),
        ({"values": {"sign": {}}}, "rename.values: 'sign' .* Did you mean 'signs'"),
        ({"values": {"granule type": {"fine": "smal"}}}, "'fine' is renamed to 'smal'.* Did you mean 'small'"),
        ({"classes": {"PMN": "Neutrofil"}}, "'PMN' is renamed to 'Neutrofil'.* Did you mean 'Neutrophil'"),
    ],
)
def test_names_on_our_side_must_exist(cells: ConceptSet, rename: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_rename(RenameConfig(**rename), cells)
    with pytest.raises(UserError, match=message):
        rename_table(table_of(THEIRS), config(**rename), cells)


def test_names_on_their_side_must_exist(cells: ConceptSet) -> None:
    with pytest.raises(UserError, match=r"theirs.csv: data.rename.columns names 'grian'.* Did you mean 'Grain'"):
        rename_table(table_of(THEIRS), config(columns={"granule type": "grian"}), cells)


def test_a_column_that_is_there_already(cells: ConceptSet) -> None:
    with pytest.raises(UserError, match="a second column 'signs'"):
        rename_table(table_of(THEIRS), config(columns={"signs": "Grain"}), cells)


def test_a_table_under_other_names(cells: ConceptSet, tmp_path: Path, paint: Paint) -> None:
    for number in range(1, 5):
        paint(tmp_path / f"{number}.png", number)
    (tmp_path / "theirs.csv").write_text(THEIRS)
    rename: dict[str, Any] = {
        "classes": {"PMN": "Neutrophil", "mono": "Monocyte", "Blast": None},
        "columns": {"granule type": "Grain"},
        "values": {
            "granule type": {"fine": "small", "none": "nil", "rough": "coarse"},
            "signs": {"dots": "spots", "bands": "stripes"},
        },
    }
    source = Table(tmp_path / "theirs.csv", config(**rename), cells)
    assert source.classes == ("Neutrophil", "Monocyte")
    assert source.examples.ids == ("1.png", "2.png", "4.png")
    assert source.examples.labels.tolist() == [0, 1, -1]
    # granule type: small, coarse, nil · vacuole: yes, no · signs: spots, stripes
    assert source.examples.concepts.tolist() == [[1, 0, 0, 1, 0, 1, 1], [0, 0, 1, 0, 1, 1, 1], [0, 1, 0, 1, 0, -1, -1]]


def test_folders_under_other_names(cells: ConceptSet, tmp_path: Path, paint: Paint) -> None:
    """Two of their folders are one class of ours, one is left out."""
    for number, folder in enumerate(("PMN segmented", "PMN band", "Monocyte", "Blast")):
        paint(tmp_path / folder / "1.png", number)
    classes = {"pmn segmented": "Neutrophil", "pmn_band": "Neutrophil", "Blast": None}
    source = Folder(tmp_path, config(classes=classes), cells)
    assert source.examples.ids == ("Monocyte/1.png", "PMN band/1.png", "PMN segmented/1.png")
    assert source.examples.labels.tolist() == [1, 0, 0]
    with pytest.raises(UserError, match="'Blast' is not one of the classes"):
        Folder(tmp_path, config(classes={key: value for key, value in classes.items() if value}), cells)
