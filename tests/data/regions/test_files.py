"""Boxes, points and masks from files: what is read, and what is refused in words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.dataset import Annotation, DataSource
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.parse import load_recipe, parse_overrides, recipe_yaml

Open = Callable[..., DataSource]
NAMES = ("birds/a.png", "birds/b.png", "bees/c.png")


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Three images of 40 × 20 pixels in a table, with the region settings given."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (40, 20)).save(tmp_path / name)
    table = tmp_path / "data.csv"
    table.write_text(
        "image,class,left,top,wide,high,outline\n"
        "birds/a.png,bird,4,2,10,8,masks/a_seg.png\nbirds/b.png,bird,,,,,\nbees/c.png,bee,0,0,40,20,\n"
    )
    concepts = ConceptSet.from_yaml("classes: [bird, bee]\ngroups: {wing: {values: [red, blue]}}")

    def open_with(**regions: Any) -> DataSource:
        tidy = {
            key: str(tmp_path / value) if key in ("boxes", "points", "masks", "sizes") and value != "own" else value
            for key, value in regions.items()
        }
        config = load_recipe({"data": {"source": str(table), "regions": tidy}}).data
        return open_source(config, concepts)[0]

    return open_with


def write(tmp_path: Path, name: str, *lines: str) -> str:
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    return name


def mask(path: Path, box: tuple[int, int, int, int], size: tuple[int, int] = (40, 20), value: Any = 255) -> None:
    path.parent.mkdir(exist_ok=True)
    mode = "L" if isinstance(value, int) else "RGB"
    picture = Image.new(mode, size)
    picture.paste(value, box)
    picture.save(path)


def of(source: DataSource, index: int) -> Annotation:
    found = source.annotation(index)
    assert found is not None
    return found


def test_boxes_by_any_spelling_of_an_image(opened: Open, tmp_path: Path) -> None:
    write(tmp_path, "boxes.csv", "image,x,y,w,h", "birds/a.png,4,2,10,8", "b,30,10,100,100", "elsewhere.png,1,1,1,1")
    source = opened(boxes="boxes.csv")
    assert source.region_names == ("object",)
    assert of(source, 0).boxes == {"object": (4, 2, 14, 10)}
    assert of(source, 1).boxes == {"object": (30, 10, 40, 20)}  # cut at the edge
    assert of(source, 0).size == (40, 20)
    assert source.annotation(2) is None


def test_boxes_of_the_datas_own_table(opened: Open) -> None:
    source = opened(boxes="own", box_columns=["left", "top", "wide", "high"])
    assert of(source, 0).boxes["object"] == (4, 2, 14, 10)
    assert source.annotation(1) is None
    assert of(source, 2).boxes["object"] == (0, 0, 40, 20)


def test_corners_parts_and_fractions(opened: Open, tmp_path: Path) -> None:
    write(tmp_path, "boxes.csv", "image;part;l;t;r;b", "a;head;0,5;0;1;0.5".replace("0,5", "0.5"), "a;tail;0;0;.25;1")
    settings = {"boxes": "boxes.csv", "box_columns": ["l", "t", "r", "b"], "box_corners": True, "units": "fraction"}
    source = opened(**settings)
    assert of(source, 0).boxes == {"head": (20, 0, 40, 10), "tail": (0, 0, 10, 20)}
    joined = opened(**settings, join={"object": ["head", "tail"]})
    assert joined.region_names == ("object",)
    assert of(joined, 0).boxes == {"object": (0, 0, 40, 20)}


def test_points_with_visibility_and_pairs_averaged(opened: Open, tmp_path: Path) -> None:
    rows = (
        "a,left eye,10,4,1",
        "a,right eye,14,8,yes",
        "a,tail,0,0,0",
        "b,left eye,2,2,1",
        "b,right eye,,,0",
        "b,tail,40,20,1",
    )
    write(tmp_path, "points.csv", "image,part,x,y,visible", *rows)
    source = opened(points="points.csv", join={"eye": ["left eye", "right eye"]})
    assert source.region_names == ("eye", "tail")
    assert of(source, 0).keypoints == {"eye": (12, 6)}
    assert of(source, 1).keypoints == {"eye": (2, 2), "tail": (40, 20)}


def test_coordinates_of_the_images_at_another_size(opened: Open, tmp_path: Path) -> None:
    write(tmp_path, "points.csv", "image,part,x,y", "a,eye,200,50")
    write(tmp_path, "boxes.csv", "image,x,y,w,h", "a,0,0,400,100")
    write(tmp_path, "sizes.csv", "image,width,height", "a,400,200")
    source = opened(points="points.csv", boxes="boxes.csv", sizes="sizes.csv")
    assert of(source, 0).keypoints == {"eye": (20, 5)}
    assert of(source, 0).boxes == {"object": (0, 0, 40, 10)}


def test_masks_by_pattern_and_by_column(opened: Open, tmp_path: Path) -> None:
    mask(tmp_path / "masks/a_seg.png", (5, 5, 10, 10))
    mask(tmp_path / "masks/b_MA.png", (0, 0, 2, 2), value=(128, 0, 0))  # dark red counts as well
    mask(tmp_path / "masks/c_seg.png", (0, 0, 0, 0))  # empty: not seen
    source = opened(masks="masks", mask_files={"object": "{name}_seg.png", "aneurysm": "{name}_M*.png"})
    assert set(source.region_names) == {"object", "aneurysm"}
    found = of(source, 0).masks["object"]
    assert found.shape == (20, 40)
    assert found.sum() == 25
    assert found[5:10, 5:10].all()
    assert of(source, 1).masks["aneurysm"].sum() == 4
    assert not of(source, 2).masks
    by_column = opened(mask_column="outline")
    np.testing.assert_array_equal(of(by_column, 0).masks["object"], found)
    assert by_column.annotation(1) is None


def test_a_mask_at_another_scale_is_brought_to_the_images(opened: Open, tmp_path: Path) -> None:
    mask(tmp_path / "masks/a.png", (0, 0, 40, 20), size=(80, 40))
    found = of(opened(masks="masks"), 0).masks["object"]
    assert found.shape == (20, 40)
    assert found.sum() == 200
    assert found[:10, :20].all()


@pytest.mark.parametrize(
    ("header", "row", "words"),
    [
        ("image,x,y,w,h", "a,1,1,0,5", r"boxes.csv: row 2: the box 1, 1, 0, 5 has no area"),
        ("image,x,y,w,h", "a,50,1,5,5", r"row 2: the box .* lies outside of 'birds/a.png', which is 40 × 20"),
        ("image,x,y,w,h", "a,one,1,5,5", r"row 2, column 'x': expected a number, found 'one'"),
        ("image,x,y,w,h", "a,1,,5,5", r"row 2: some of x, y, w, h are blank"),
        ("image,x,y,w,h", "zebra,1,1,5,5", r"names none of the images of the data; for example 'zebra'"),
        ("image,x,y,width,h", "a,1,1,5,5", r"data.regions.boxes needs a column 'w'"),
        ("image,x,y,w,h", "a,1,1,5,5\na,2,2,5,5", r"row 3: 'object' of 'a' was given in an earlier row"),
    ],
)
def test_bad_boxes(opened: Open, tmp_path: Path, header: str, row: str, words: str) -> None:
    write(tmp_path, "boxes.csv", header, row)
    with pytest.raises(UserError, match=words):
        opened(boxes="boxes.csv").annotation(0)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("a,eye,43,5,1", r"row 2: the point of 'eye' at \(43, 5\) lies outside of 'birds/a.png', which is 40 × 20"),
        ("a,eye,5,-2,1", r"lies outside"),
        ("a,eye,5,5,perhaps", r"column 'visible': expected yes or no \(1 or 0\), found 'perhaps'"),
        ("a,,5,5,1", r"expected the name of a part, found a blank"),
    ],
)
def test_bad_points(opened: Open, tmp_path: Path, row: str, words: str) -> None:
    write(tmp_path, "points.csv", "image,part,x,y,visible", row)
    with pytest.raises(UserError, match=words):
        opened(points="points.csv").annotation(0)


def test_a_slip_of_the_hand_is_moved_to_the_edge(opened: Open, tmp_path: Path) -> None:
    write(tmp_path, "points.csv", "image,part,x,y", "a,eye,41.5,-0.5")
    assert of(opened(points="points.csv"), 0).keypoints == {"eye": (40, 0)}


def test_a_hidden_point_may_lie_anywhere(opened: Open, tmp_path: Path) -> None:
    write(tmp_path, "points.csv", "image,part,x,y,visible", "a,eye,-9,900,0", "a,tail,1,1,1")
    assert of(opened(points="points.csv"), 0).keypoints == {"tail": (1, 1)}


def test_bad_masks_and_settings(opened: Open, tmp_path: Path) -> None:
    mask(tmp_path / "masks/a.png", (0, 0, 5, 5), size=(30, 30))
    with pytest.raises(UserError, match=r"a.png: a mask of 30 × 30 pixels, but its image has 40 × 20"):
        opened(masks="masks").annotation(0)
    with pytest.raises(UserError, match=r"expected a folder of mask images, found none at .*nowhere"):
        opened(masks="nowhere")
    with pytest.raises(UserError, match=r"no image has such a mask; of 'birds/a.png' it would be .*a_mask.png"):
        opened(masks="masks", mask_files={"object": "{name}_mask.png"})
    with pytest.raises(UserError, match=r"expected {name} in the file's name"):
        opened(masks="masks", mask_files={"object": "mask.png"})
    with pytest.raises(UserError, match=r"there is no column 'outlines'. Did you mean 'outline'"):
        opened(mask_column="outlines")
    with pytest.raises(UserError, match=r"masks/a_seg.png: no such mask"):
        opened(mask_column="outline")
    write(tmp_path, "points.csv", "image,part,x,y", "a,left eye,1,1")
    with pytest.raises(UserError, match=r"join: eye: Unknown part 'left eyes'. Did you mean 'left eye'"):
        opened(points="points.csv", join={"eye": ["left eyes"]})
    with pytest.raises(UserError, match=r"speak of boxes, points or masks, but none are given"):
        opened(join={"eye": ["left eye"]})
    write(tmp_path, "sizes.csv", "image,width,height", "a,300,300")
    with pytest.raises(UserError, match=r"300 × 300 has other proportions than 'birds/a.png'"):
        opened(points="points.csv", sizes="sizes.csv").annotation(0)
    with pytest.raises(UserError, match=r"the key 'boxs' is not known in `data.regions`. Did you mean 'boxes'"):
        opened(boxs="x.csv")


def test_two_images_of_one_name_need_their_folders(tmp_path: Path, opened: Open) -> None:
    Image.new("RGB", (40, 20)).save(tmp_path / "bees/a.png")
    table = tmp_path / "data.csv"
    table.write_text(table.read_text() + "bees/a.png,bee,,,,,\n")
    write(tmp_path, "boxes.csv", "image,x,y,w,h", "birds/a.png,4,2,10,8", "bees/a,1,1,1,1")
    source = opened(boxes="boxes.csv")
    assert of(source, 0).boxes["object"] == (4, 2, 14, 10)
    assert of(source, 3).boxes["object"] == (1, 1, 2, 2)
    write(tmp_path, "boxes.csv", "image,x,y,w,h", "a.png,4,2,10,8", "b.png,4,2,10,8")
    assert opened(boxes="boxes.csv").annotation(0) is None  # either could be meant


def test_drawn_data_takes_no_files_and_recipes_keep_regions() -> None:
    with pytest.raises(UserError, match="shapes knows its own regions"):
        open_source(load_recipe({"data": {"source": "shapes", "regions": {"boxes": "x.csv"}}}).data, None)
    words = ["--data.regions.masks", "scans #2", "--data.regions.mask_files", "{object: '{name}_s.png'}"]
    recipe = load_recipe(
        {"data": {"source": "shapes", "regions": {"concepts": {"wing": "head"}}}}, parse_overrides(words)
    )
    assert recipe.data.regions.masks == "scans #2"
    assert recipe.data.regions.mask_files == {"object": "{name}_s.png"}
    from conceptlens.core.files import parse_yaml

    again = load_recipe(parse_yaml(recipe_yaml(recipe), where="x"))
    assert again.data.regions == recipe.data.regions
