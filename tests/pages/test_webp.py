import io

from matplotlib.figure import Figure
from PIL import Image

from conceptlens.pages.webp import COLORS, webp


def test_a_line_drawing_is_small_and_sharp() -> None:
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1], [0, 1], color="#0072b2")
    picture = Image.open(io.BytesIO(webp(figure, dpi=100)))
    assert (picture.format, picture.size) == ("WEBP", (200, 100))
    colors = {color for _, color in picture.convert("RGB").getcolors() or ()}
    assert 2 < len(colors) <= COLORS
    assert (255, 255, 255) in colors
