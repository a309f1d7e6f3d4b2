"""Deep gray to bytes, against numbers worked by hand."""

import io

import numpy as np
import pytest
from PIL import Image

from conceptlens.core.errors import UserError
from conceptlens.data.images.read import open_image
from conceptlens.data.images.window import Window, spread

VALUES = np.array([[0, 1000], [2000, 60000]])


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("file", [0, 4, 8, 255]),  # 255 · v / 60000
        ("range", [0, 4, 8, 255]),
        ((0.0, 65535.0), [0, 4, 8, 233]),
        ((1000.0, 2000.0), [0, 0, 255, 255]),
        ((0.0, 4000.0), [0, 64, 128, 255]),
    ],
)
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bit_files(window: Window, expected: list[int], kind: str) -> None:
    buffer = io.BytesIO()
    Image.fromarray(VALUES.astype(np.uint16)).save(buffer, kind)
    image = open_image(buffer.getvalue(), name="it", window=window)
    assert np.asarray(image)[..., 0].reshape(-1).tolist() == expected


def test_percentiles_leave_outliers_out() -> None:
    values = np.arange(101.0).reshape(1, -1)
    values[0, 100] = 1e6
    found = spread(values.copy(), "percentile", name="it")[0]
    assert found[:2].tolist() == [0, 0]  # the 1st percentile is 1
    assert found[50] == round(255 * 49 / 98)
    assert found[99:].tolist() == [255, 255]
    assert spread(values, "range", name="it")[0, :100].max() == 0


def test_what_is_no_number() -> None:
    values = np.array([[np.nan, -np.inf], [1.0, np.inf], [0.0, 0.5]])
    assert spread(values, "range", name="it").tolist() == [[0, 0], [255, 255], [0, 128]]
    with pytest.raises(UserError, match="it: none of its pixels"):
        spread(np.full((2, 2), np.nan), (0.0, 1.0), name="it")


def test_flat() -> None:
    for window in ("range", "percentile"):
        assert spread(np.full((2, 2), 9.0), window, name="it").max() == 0  # type: ignore[arg-type]


def test_eight_bits_stay_as_they_are() -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.array([[10, 20]], dtype=np.uint8)).save(buffer, "PNG")
    image = open_image(buffer.getvalue(), name="it", window=(0.0, 20.0))
    assert np.asarray(image)[..., 0].tolist() == [[10, 20]]
