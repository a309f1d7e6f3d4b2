"""Pictures beside a graph: a strip of crops for each concept, images once, names that no stranger chooses."""

import re
from pathlib import Path

import numpy as np
from PIL import Image

from conceptlens.gig.document import Completeness, Crop, Graph, Node, Row
from conceptlens.gig.pages.page import address
from conceptlens.gig.pages.pictures import CROP, FOLDER, SIDE, image_file, keep_pictures, sheet_file

COLORS = ("red", "lime", "blue")


class Drawn:
    """Crops in three colors, images in white."""

    def crops_of(self, layer: str, concept: int) -> list[str]:
        return [address(Image.new("RGB", (64, 64), color)) for color in COLORS]

    def image(self, name: str) -> Image.Image:
        return Image.new("RGB", (30, 40), "white")


def _graph() -> Graph:
    crops = [Crop(image="a", position=0, cosine=0.9, box=(0, 0, 1, 1))] * 3
    concept = Node(id="../../x/1", kind="concept", layer="x", concept=1, name="concept 1", crops=crops)
    error = Node(id="x/error", kind="error", layer="x", name="unexplained")
    row = Row(layer="x", grid=(1, 1), channels=1, concepts=2, used=1, relative_l2=0, zero_share=0, error_share=0)
    return Graph(
        about="class",
        title="t",
        model="m",
        outputs=["cat"],
        images=["/etc/passwd", "noisy"],
        images_of={},
        path="shifted",
        target="logit",
        rows=[row],
        nodes=[concept, error],
        edges=[],
        completeness=Completeness(mean=0, worst=0, above=0, tolerance=0.01, steps_mean=1, steps_most=1),
    )


def test_a_sheet_has_the_crops_side_by_side(tmp_path: Path) -> None:
    graph = _graph()
    keep_pictures(Drawn(), graph, tmp_path)
    concept, error = graph.nodes
    assert error.sheet is None
    assert concept.sheet == sheet_file("../../x/1")
    sheet = np.asarray(Image.open(tmp_path / concept.sheet)).astype(int)
    assert sheet.shape == (CROP, 3 * CROP, 3)
    for place in range(3):
        assert sheet[CROP // 2, place * CROP + CROP // 2].argmax() == place


def test_images_are_kept_once_and_disturbed_ones_as_given(tmp_path: Path) -> None:
    graph = _graph()
    keep_pictures(Drawn(), graph, tmp_path, {"noisy": Image.new("RGB", (9, 9), "black")})
    assert graph.pictures == {name: image_file(name) for name in graph.images}
    light = {name: np.asarray(Image.open(tmp_path / file)).mean() for name, file in graph.pictures.items()}
    assert light["/etc/passwd"] > 250
    assert light["noisy"] < 5
    assert Image.open(tmp_path / image_file("noisy")).size == (SIDE, SIDE)


def test_no_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    keep_pictures(Drawn(), _graph(), tmp_path / "run")
    assert {path.parent for path in tmp_path.rglob("*.jpg")} == {tmp_path / "run" / FOLDER}
    assert re.fullmatch(r"pictures/sheet-[0-9a-f]{16}\.jpg", sheet_file("a/b\0c"))
    assert image_file("a") != image_file("b")
