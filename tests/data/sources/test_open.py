import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.schema import DataConfig, ShapesConfig


def test_built_in_data_brings_its_words(cells: ConceptSet) -> None:
    source, concepts = open_source(DataConfig("blood-cells"), None)
    assert (source.name, concepts.name) == ("blood-cells", "blood-cells")
    source, concepts = open_source(DataConfig("shapes", shapes=ShapesConfig(n=12)), None)
    assert len(source) == 12
    assert source.examples.concepts.shape == (12, len(concepts))
    with pytest.raises(UserError, match="'Basophil' is not one of the classes"):
        open_source(DataConfig("blood-cells"), cells)


def test_formats_are_recognized(tmp_path: Path, cells: ConceptSet, paint) -> None:
    paint(tmp_path / "set" / "Monocyte" / "a.png")
    (tmp_path / "t.csv").write_text("image,class\nset/Monocyte/a.png,Monocyte\n")
    (tmp_path / "t.dat").write_text("image\tclass\nset/Monocyte/a.png\tMonocyte\n")
    (tmp_path / "pair").mkdir()
    np.save(tmp_path / "pair" / "dataList.npy", np.zeros((2, 4, 4, 3), np.uint8))
    np.save(tmp_path / "pair" / "labelList.npy", np.array([0, 1]))

    def kind(name: str, **options: str) -> str:
        source, _ = open_source(DataConfig(str(tmp_path / name), **options), cells)  # type: ignore[arg-type]
        return type(source).__name__

    assert kind("set") == "Folder"
    assert kind("t.csv") == "Table"
    assert kind("t.dat", kind="table") == "Table"
    assert kind("pair") == "NpyPair"
    assert kind("pair/dataList.npy") == "NpyPair"
    for name, options, words in (
        ("t.dat", {}, "expected a folder, a table"),
        ("t.csv", {"kind": "folder"}, "found a file"),
        ("set", {"kind": "table"}, "found a folder"),
        ("tt.csv", {}, "Did you mean 't.csv'"),
        ("no/where.csv", {}, "is not there either"),
    ):
        with pytest.raises(UserError, match=words):
            kind(name, **options)
    with pytest.raises(UserError, match=r"elsewhere\.xlsx: no such file or folder\.$"):
        kind("elsewhere.xlsx")  # what else lies there is not listed


def test_unknown_names_and_missing_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paint) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="Did you mean 'blood-cells'"):
        open_source(DataConfig("blod-cells"), None)
    with pytest.raises(UserError, match="Unknown built-in data 'birds'"):
        open_source(DataConfig("birds", kind="builtin"), None)
    with pytest.raises(UserError, match="neither built-in nor a file or folder here"):
        open_source(DataConfig("birds"), None)
    paint(tmp_path / "mine" / "a" / "1.png")
    with pytest.raises(UserError, match=r"needs a concept file(?s:.*)groups:"):
        open_source(DataConfig("mine"), None)


def test_the_example_in_the_message_is_a_concept_file() -> None:
    with pytest.raises(UserError) as caught:
        open_source(DataConfig(str(Path(__file__).parent)), None)
    text = "\n".join(line[4:] for line in str(caught.value).splitlines() if line.startswith("    "))
    assert [group.name for group in ConceptSet.from_yaml(text).groups] == ["border", "colour"]


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, conceptlens.data, conceptlens.data.checks.check; "
        "print('torch' in sys.modules, 'pyarrow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
