"""Nothing of this machine goes out, and nothing else is harmed."""

import math

import pytest

from conceptlens.web.share.choose import by_class, choose, in_turn, only, referred
from conceptlens.web.share.clean import clean, without_paths
from conceptlens.web.share.pack import block, packed, unpacked


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/anna/data/cells", "…/cells"),
        (
            "The run's images cannot be opened: /home/anna/data/cells: no such folder.",
            "The run's images cannot be opened: …/cells: no such folder.",
        ),
        ("conceptlens resume '/srv/big disk/runs'", "conceptlens resume '…/big disk/runs'"),
        (r"C:\Users\anna\cells.csv is gone", "…/cells.csv is gone"),
        ("~/runs/demo/", "…/"),
        ("CIN 1/2/3, mitoses/mm and/or </b> km/h", "CIN 1/2/3, mitoses/mm and/or </b> km/h"),
        ("runs/demo", "runs/demo"),
        ("/api/v1/runs/demo/images/test/3/picture", "/api/v1/runs/demo/images/test/3/picture"),
        ("data:image/png;base64,AA//BB/CC/", "data:image/png;base64,AA//BB/CC/"),
    ],
)
def test_paths_are_shortened_to_their_last_part(text: str, left: str) -> None:
    assert without_paths(text) == left


def test_numbers_keep_what_a_float32_has_and_maps_stay_as_they_are() -> None:
    maps = {"of": [0], "scale": [0.123456789012], "data": "+/ab/cd/ef=="}
    value = {"x": [0.1 + 0.2, 1, True, None], "m": maps, "/etc/big/key": "y"}
    assert clean(value) == {
        "x": [0.3, 1, True, None],
        "m": {"of": [0], "scale": [0.123456789], "data": "+/ab/cd/ef=="},
        "…/key": "y",
    }


def test_packing_is_undone_by_unpacking() -> None:
    body = {"name": "</script><b>é", "values": [0.1, None]}
    assert unpacked(packed(body, 409)) == {"status": 409, "body": body}
    assert packed(body) == packed(body)
    with pytest.raises(ValueError):
        packed({"bad": math.nan})


def test_a_block_of_json_cannot_end_its_script() -> None:
    text = block({"a": "</script><!--<script>&"})
    assert "<" not in text
    assert text == r'{"a":"\u003c/script\u003e\u003c!--\u003cscript\u003e\u0026"}'


def test_images_are_chosen_in_turn() -> None:
    items = [{"row": row, "truth": ["a" if row < 4 else "b"]} for row in range(6)]
    assert list(by_class(items)) == [0, 4, 1, 5, 2, 3]
    assert list(in_turn([[1, 2, 3], [1], [9]])) == [1, 9, 2, 3]
    orders = {"wrong": [5, 3], "uncertain": [3, 2]}
    # wrong 5, unsure 3, pointed at 1 (7 is not there), of a class 0; then wrong 3 again, unsure 2, class 4.
    assert choose(items, orders, [1, 7], 6) == [5, 3, 1, 0, 2, 4]
    assert choose(items, {}, [], 2) == [0, 4]


def test_concepts_point_at_images_of_the_file_only() -> None:
    def refs(*rows: int, split: str = "test") -> list[dict[str, object]]:
        return [{"split": split, "row": row, "cell": 0} for row in rows]

    concepts = {
        "concepts": [{"patches": refs(1, 2), "images": refs(3)}, {"patches": refs(4, split="val"), "images": []}]
    }
    codes = {"codes": [{"patches": refs(5, 1)}]}
    assert list(referred([concepts, codes], "test")) == [1, 3, 5, 2]
    kept = only(concepts, "test", frozenset({2, 4}))
    assert [entry["patches"] for entry in kept["concepts"]] == [refs(2), []]
    assert [entry["images"] for entry in kept["concepts"]] == [[], []]
