from pathlib import Path

import numpy as np
import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.checks.findings import Problems
from conceptlens.data.sources.table import Table
from conceptlens.recipes.schema import DataConfig

U = -1


@pytest.fixture
def write(tmp_path: Path, paint):
    """A table with the images a.png, b.png, c.png beside it."""
    for seed, name in enumerate("abc"):
        paint(tmp_path / f"{name}.png", seed)

    def table(text: str, **options: object) -> tuple[Path, DataConfig]:
        path = tmp_path / "labels.csv"
        path.write_text(text, "utf-8")
        return path, DataConfig(str(path), **options)  # type: ignore[arg-type]

    return table


def test_everything_a_table_may_say(write, cells: ConceptSet) -> None:
    path, config = write(
        "Image,Class,Split,Group,Granule Type,vacuole,spots,has_stripes,age\n"
        "a.png,neutrophil,train,p1,nil,yes,1,no,40\n"
        "b.png,Monocyte,validation,p1,Unknown,,true,?,50\n"
        "c.png,na,,,COARSE,0,0,1,60\n"
    )
    table = Table(path, config, cells)
    examples = table.examples
    assert table.classes == ("Neutrophil", "Monocyte")
    assert examples.ids == ("a.png", "b.png", "c.png")
    assert examples.labels.tolist() == [0, 1, U]
    assert examples.split == ("train", "val", "")
    assert examples.group == ("p1", "p1", "")
    assert examples.metadata == {"age": ("40", "50", "60")}
    assert examples.certainty is None
    # granule type: small, coarse, nil (a declared value, though it sounds like nothing) · vacuole yes, no · signs
    assert examples.concepts.tolist() == [[0, 0, 1, 1, 0, 1, 0], [U, U, U, U, U, 1, U], [0, 1, 0, 0, 1, 0, 1]]
    assert table.read(2).mode == "RGB"


def test_a_missing_word_that_is_a_value_is_the_value(write) -> None:
    concepts = ConceptSet.from_yaml("classes: [x]\ngroups: {margin: {values: [sharp, unknown]}}")
    path, config = write("image,class,margin\na.png,x,unknown\nb.png,x,na\n")
    assert Table(path, config, concepts).examples.concepts.tolist() == [[0, 1], [U, U]]


def test_lists_of_signs(write, cells: ConceptSet) -> None:
    path, config = write(
        "image;class;signs\na.png;Monocyte;'spots'\n".replace("'", '"')
        + 'b.png;Monocyte;"Stripes; spots"\nc.png;Monocyte;none\n'
    )
    assert Table(path, config, cells).examples.concepts[:, 5:].tolist() == [[1, 0], [1, 1], [0, 0]]
    path, config = write("image,class,signs\na.png,Monocyte,\nb.png,Monocyte,spots;zebra\n")
    with pytest.raises(UserError, match="row 3, column 'signs': 'zebra' is not a value of 'signs'"):
        Table(path, config, cells)


def test_groups_without_a_column_follow_the_class(write, cells: ConceptSet) -> None:
    path, config = write("image,class,granule_type\na.png,Neutrophil,\nb.png,Monocyte,coarse\nc.png,,small\n")
    concepts = Table(path, config, cells).examples.concepts
    assert concepts[:, :3].tolist() == [
        [U, U, U],
        [0, 1, 0],
        [1, 0, 0],
    ]  # its column is there: a blank is not filled in
    assert concepts[:, 5:].tolist() == [[1, 0], [0, 0], [U, U]]


def test_certainty_by_row_and_by_concept(write, cells: ConceptSet) -> None:
    path, config = write(
        "image,class,certainty,granule_type,granule_type_certainty,spots,has_stripes,has_stripes_certainty\n"
        "a.png,Monocyte,0.5,nil,0.25,1,0,\n"
        "b.png,Monocyte,,nil,,1,0,0\n"
    )
    certainty = Table(path, config, cells).examples.certainty
    assert certainty is not None
    assert certainty.dtype == np.float32
    assert certainty.tolist() == [[0.25, 0.25, 0.25, 0.5, 0.5, 0.5, 1], [1, 1, 1, 1, 1, 1, 0]]
    path, config = write("image,class,certainty\na.png,Monocyte,70%\n")
    with pytest.raises(UserError, match="row 2, column 'certainty': '70%' is not a certainty from 0 to 1"):
        Table(path, config, cells)


def test_several_classes(write, cells: ConceptSet) -> None:
    path, config = write("image,class\na.png,monocyte;Neutrophil\nb.png,none\nc.png,\n", task="multilabel")
    table = Table(path, config, cells)
    assert table.examples.labels.tolist() == [[1, 1], [0, 0], [U, U]]
    # Both classes deny coarse granules and stripes; of the rest they disagree.
    assert table.examples.concepts.tolist() == [[U, 0, U, U, U, U, 0], [U] * 7, [U] * 7]
    path, config = write("image,class\na.png,Monocyte|Neutrophil\n", task="multilabel")
    with pytest.raises(UserError, match="separated by ';'"):
        Table(path, config, cells)


def test_classes_of_a_scale(write) -> None:
    concepts = ConceptSet.from_yaml("groups: {colour: {values: [red, blue]}}")
    path, config = write("image,class\na.png,10.0\nb.png,2.0\nc.png,\n", task="ordinal")
    table = Table(path, config, concepts)
    assert table.classes == ("2", "10")
    assert table.examples.labels.tolist() == [1, 0, U]
    path, config = write("image,class\na.png,mild\nb.png,severe\n", task="ordinal")
    with pytest.raises(UserError, match="lowest first"):
        Table(path, config, concepts)
    config.classes = ["severe", "mild"]
    assert Table(path, config, concepts).examples.labels.tolist() == [1, 0]


def test_a_class_called_none_is_a_class(write) -> None:
    concepts = ConceptSet.from_yaml("groups: {colour: {values: [red, blue]}}")
    path, config = write("image,class\na.png,none\nb.png,some\n")
    assert Table(path, config, concepts).classes == ("none", "some")


def test_without_a_class_column(write, cells: ConceptSet) -> None:
    path, config = write("image,vacuole\na.png,yes\n")
    table = Table(path, config, cells)
    assert table.classes == cells.classes
    assert table.examples.labels.tolist() == [U]
    path, config = write("image,label\na.png,Monocyte\n")
    with pytest.raises(UserError, match=r"If it is 'label', set data\.class_column"):
        Table(path, config, cells)
    path, config = write("image,class\na.png,Monocyte\n", class_column="diagnosis")
    with pytest.raises(UserError, match="no column 'diagnosis'"):
        Table(path, config, cells)


def test_where_images_are(write, tmp_path: Path, cells: ConceptSet, paint) -> None:
    paint(tmp_path / "pictures" / "d.jpeg")
    path, config = write(f"image,class\n{tmp_path / 'a.png'},Monocyte\n./b.png,Monocyte\npictures\\d,Monocyte\n")
    table = Table(path, config, cells)
    assert table.examples.ids == ("a.png", "b.png", "pictures/d")
    assert table.encoded(2) == tmp_path / "pictures" / "d.jpeg"
    path, config = write("image,class\nd,Monocyte\n../a.png,Monocyte\n", images=str(tmp_path / "pictures"))
    assert [table.read(index).size for index in range(2)] == [(40, 40), (40, 40)]
    assert len(Table(path, config, cells)) == 2
    config.images = str(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"data\.images"):
        Table(path, config, cells)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("image,class\n", "found none"),
        ("picture,class\na.png,Monocyte\n", "no column 'image'"),
        ("imag,class\na.png,Monocyte\n", "Did you mean 'imag'"),
        ("image,class\nx.png,Monocyte\ny.png,Monocyte\na.png,Monocyte\n", "2 of 3 images are not there.*x.png, y.png"),
        ("image,class\na.png,Monocyte\n./a.png,Monocyte\n", "1 row name an image that an earlier row has"),
        ("image,class\n,Monocyte\na.png,Monocyte\n", "1 row without an image.*row 2"),
        ("image,class\na.png,Monozyte\n", "row 2, column 'class': 'Monozyte'.*Did you mean 'Monocyte'"),
        ("image,class,vacuole\na.png,Monocyte,yes\nb.png,Monocyte,perhaps\n", "row 3, column 'vacuole': 'perhaps'"),
        ("image,class,granule_type\na.png,Monocyte,smal\n", "Did you mean 'small'"),
        ("image,class,spots\na.png,Monocyte,1\n", "'has_stripes' is not"),
        ("image,class,spots,has_stripes\na.png,Monocyte,maybe,0\n", "'maybe' is not a yes or a no"),
        ("image,class,split\na.png,Monocyte,trian\n", "row 2, column 'split': 'trian'.*Did you mean 'train'"),
        ("image,class,vacuole,Vacuole\na.png,Monocyte,yes,no\n".replace("vacuole,V", "VACUOLE,V"), "could be any of"),
    ],
)
def test_what_is_wrong_is_said(write, cells: ConceptSet, text: str, words: str) -> None:
    path, config = write(text)
    with pytest.raises(UserError, match=words) as caught:
        Table(path, config, cells)
    assert str(path) in str(caught.value)


def test_lenient_opening_gathers_it_all(write, cells: ConceptSet) -> None:
    path, config = write(
        "image,class,vacuole,split\n"
        "a.png,Monocyte,perhaps,train\n"
        "a.png,Monocyte,yes,train\n"
        "x.png,Monocyte,yes,train\n"
        "b.png,Monozyte,no,tset\n"
    )
    problems = Problems(strict=False)
    table = Table(path, config, cells, problems)
    assert table.examples.ids == ("a.png", "b.png")
    assert table.examples.labels.tolist() == [1, U]
    assert table.examples.concepts[:, 3:5].tolist() == [[U, U], [0, 1]]
    codes = [finding.code for finding in problems.findings]
    assert codes == ["missing-files", "repeated-images", "unknown-class", "unknown-value", "unknown-split"]


def test_parquet(write, tmp_path: Path, cells: ConceptSet) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    text = "image,class,granule_type,spots,has_stripes\na.png,Monocyte,nil,true,false\nb.png,Neutrophil,,,true\n"
    path, config = write(text)
    columns = {
        "image": ["a.png", "b.png"],
        "class": ["Monocyte", "Neutrophil"],
        "granule_type": ["nil", None],
        "spots": [True, None],
        "has_stripes": [False, True],
    }
    pq.write_table(pa.table(columns), tmp_path / "labels.parquet")
    from_csv, from_parquet = (Table(file, config, cells) for file in (path, tmp_path / "labels.parquet"))
    assert from_csv.examples.fingerprint == from_parquet.examples.fingerprint


def test_groups_that_stand_under_another(write) -> None:
    concepts = ConceptSet.from_yaml(
        "classes: [x]\n"
        "groups:\n"
        "  granularity: {values: ['yes', 'no']}\n"
        "  granule colour: {under: {granularity: 'yes'}, values: [pink, red]}\n"
    )
    path, config = write("image,class,granularity,granule_colour\na.png,x,yes,red\nb.png,x,no,red\nc.png,x,,pink\n")
    assert Table(path, config, concepts).examples.concepts.tolist() == [[1, 0, 0, 1], [0, 1, U, U], [U, U, 1, 0]]
