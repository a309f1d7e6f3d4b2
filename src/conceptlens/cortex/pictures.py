"""Pictures of token grids: sheets of images, important tokens in boxes, strips of an edit, curves."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from conceptlens.core.figures import new_figure, png_bytes
from conceptlens.cortex.masking import MaskingCurve
from conceptlens.pages.pictures import encode_image

Pixels = npt.NDArray[np.uint8]
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # Okabe and Ito
GAP, TITLE = 2, 14


def to_bytes(images: Tensor) -> Pixels:
    """Images (n, 3, H, W) in [0, 1] as (n, H, W, 3) bytes."""
    values: Pixels = (images.detach().clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
    return values


def sheet(rows: Sequence[tuple[str, Tensor]], scale: int = 1) -> bytes:
    """Rows of images (n, 3, H, W), each with a title above it, as PNG."""
    pictures = [(title, to_bytes(images)) for title, images in rows]
    height, width = (side * scale for side in pictures[0][1].shape[1:3])
    columns = max(len(images) for _, images in pictures)
    whole = Image.new("RGB", (columns * (width + GAP), len(pictures) * (height + TITLE + GAP)), "white")
    draw = ImageDraw.Draw(whole)
    for row, (title, images) in enumerate(pictures):
        top = row * (height + TITLE + GAP)
        draw.text((2, top + 1), title, fill="black")
        for column, image in enumerate(images):
            tile = Image.fromarray(image).resize((width, height), Image.Resampling.NEAREST)
            whole.paste(tile, (column * (width + GAP), top + TITLE))
    return png(whole)


def boxed(images: Tensor, marked: Tensor, color: tuple[int, int, int] = (220, 30, 30)) -> Tensor:
    """Images (n, 3, H, W) with a frame around each marked position (n, h, w), as Figure 3."""
    result = []
    for picture, places in zip(to_bytes(images), marked.cpu(), strict=True):
        image = Image.fromarray(picture)
        draw = ImageDraw.Draw(image)
        tall, wide = image.height / places.shape[0], image.width / places.shape[1]
        for row, column in places.nonzero().tolist():
            corners = (column * wide, row * tall, (column + 1) * wide - 1, (row + 1) * tall - 1)
            draw.rectangle(corners, outline=color)
        result.append(np.asarray(image))
    return torch.from_numpy(np.stack(result)).permute(0, 3, 1, 2).float() / 255


def png(image: Image.Image) -> bytes:
    """A PNG, packed well."""
    return encode_image(image, "PNG", optimize=True)


def masking_figure(curves: Sequence[MaskingCurve]) -> bytes:
    """Figure 4: probability against hidden tokens, and against shown ones, by judge and order."""
    figure = new_figure(9.2, 3.6)
    left, right = figure.subplots(1, 2)
    judges = list(dict.fromkeys(curve.judge for curve in curves))
    orders = list(dict.fromkeys(curve.order for curve in curves))
    for curve in curves:
        look = {
            "color": COLORS[judges.index(curve.judge) % len(COLORS)],
            "linestyle": ("-", "--", ":", "-.")[orders.index(curve.order) % 4],
            "label": f"{curve.judge}, {curve.order}",
        }
        left.plot(curve.counts, curve.deletion, **look)
        right.plot(curve.counts, curve.insertion, **look)
    left.set_xlabel("tokens hidden")
    right.set_xlabel("tokens shown")
    left.set_ylabel("mean probability of the image's concept")
    left.legend(fontsize=7)
    return png_bytes(figure)


def path_figure(steps: Sequence[int], paths: Tensor, title: str) -> bytes:
    """Probability of the target along a search, one line an image (B, T)."""
    figure = new_figure(4.6, 3.0)
    axes = figure.subplots()
    for path in paths.cpu():
        axes.plot(steps, path.numpy(), color=COLORS[0], alpha=0.7, linewidth=1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("step")
    axes.set_ylabel("probability by the extractor")
    axes.set_title(title, fontsize=10)
    return png_bytes(figure)
