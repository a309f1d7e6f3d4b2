import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile

from conceptlens.core.errors import UserError
from conceptlens.data.images.read import MAX_PIXELS, examine_image, open_image, resize_square


def encode(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


def png(header: bytes, rows: bytes) -> bytes:
    """A PNG file from the body of its header and its raw rows."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def pixels(data: bytes) -> np.ndarray:
    image = open_image(data, name="it")
    assert image.mode == "RGB"
    return np.asarray(image)


def corner() -> Image.Image:
    """4 × 2, black but for a red pixel at the top left."""
    image = Image.new("RGB", (4, 2))
    image.putpixel((0, 0), (255, 0, 0))
    return image


@pytest.mark.parametrize(
    ("turn", "place", "size"),
    [
        (1, (0, 0), (4, 2)),
        (2, (3, 0), (4, 2)),
        (3, (3, 1), (4, 2)),
        (4, (0, 1), (4, 2)),
        (5, (0, 0), (2, 4)),
        (6, (1, 0), (2, 4)),
        (7, (1, 3), (2, 4)),
        (8, (0, 3), (2, 4)),
    ],
)
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_orientation_is_applied(turn: int, place: tuple[int, int], size: tuple[int, int], kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = turn
    lossless = {"lossless": True} if kind == "WEBP" else {}
    data = encode(corner(), kind, exif=exif, **lossless)
    upright = open_image(data, name="it")
    assert upright.size == size
    assert upright.getpixel(place) == (255, 0, 0)
    facts = examine_image(data, name="it")[1]
    assert facts.rotated is (turn > 1)
    assert sorted((facts.width, facts.height)) == [2, 4]


def test_gray_alpha_palette_cmyk_and_bits() -> None:
    assert (pixels(encode(Image.new("L", (2, 2), 7))) == 7).all()
    assert (pixels(encode(Image.new("1", (2, 2), 1))) == 255).all()
    half = pixels(encode(Image.new("RGBA", (1, 1), (0, 0, 0, 128))))
    assert half.reshape(-1).tolist() == [127] * 3  # half black over white
    hidden = Image.new("LA", (2, 1), (0, 0))
    with pytest.raises(UserError, match="every pixel is fully transparent"):
        pixels(encode(hidden))
    hidden.putpixel((1, 0), (7, 255))
    assert pixels(encode(hidden)).reshape(-1).tolist() == [255] * 3 + [7] * 3
    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 200, 0, 0])
    palette.putpixel((1, 0), 1)
    assert pixels(encode(palette)).tolist() == [[[10, 20, 30], [200, 0, 0]]]
    assert pixels(encode(palette, transparency=0)).tolist() == [[[255, 255, 255], [200, 0, 0]]]
    assert pixels(encode(Image.new("CMYK", (1, 1), (0, 255, 255, 0)), "TIFF")).reshape(-1).tolist() == [255, 0, 0]


def test_sixteen_bits_are_scaled_by_their_own_window() -> None:
    values = np.array([[1000, 1100], [1200, 3000]], dtype=np.uint16)
    data = encode(Image.fromarray(values))
    assert pixels(data)[..., 0].tolist() == [[0, 13], [26, 255]]  # 255 · (v - 1000) / 2000
    facts = examine_image(data, name="it")[1]
    assert facts.deep
    assert facts.gray
    flat = encode(Image.fromarray(np.full((2, 2), 900, dtype=np.uint16)))
    assert (pixels(flat) == 0).all()


def test_floats_with_gaps() -> None:
    values = np.array([[0.0, 0.5], [1.0, np.nan]], dtype=np.float32)
    assert pixels(encode(Image.fromarray(values), "TIFF"))[..., 0].tolist() == [[0, 128], [255, 0]]
    with pytest.raises(UserError, match="none of its pixels is a number"):
        pixels(encode(Image.fromarray(np.full((2, 2), np.nan, dtype=np.float32)), "TIFF"))


def test_sixteen_bit_color_is_noticed() -> None:
    pixel = struct.pack(">HHH", 0x1234, 0xFF00, 0x00FF)
    data = png(struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0), b"\0" + pixel)
    assert pixels(data).reshape(-1).tolist() == [0x12, 0xFF, 0x00]
    assert examine_image(data, name="it")[1].deep


def test_facts_of_a_plain_image() -> None:
    facts = examine_image(encode(corner()), name="it")[1]
    assert (facts.mode, facts.gray, facts.alpha, facts.deep, facts.rotated, facts.frames) == (
        "RGB", False, False, False, False, 1,
    )  # fmt: skip
    frames = encode(corner(), "GIF", save_all=True, append_images=[Image.new("RGB", (4, 2), "white")])
    assert examine_image(frames, name="it")[1].frames == 2
    assert open_image(frames, name="it").getpixel((3, 1)) == (0, 0, 0)
    assert examine_image(encode(corner().convert("RGBA")), name="it")[1].opaque


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    data = encode(Image.effect_noise((64, 64), 50).convert("RGB"), "JPEG")
    (tmp_path / "cut.jpg").write_bytes(data[: len(data) // 2])
    (tmp_path / "text.jpg").write_text("not an image")
    (tmp_path / "empty.png").touch()
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "vector.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    for name, words in {
        "cut.jpg": "damaged or cut short",
        "text.jpg": "not an image",
        "empty.png": "it is empty",
        "folder.png": "folder",
        "vector.eps": "not an image",
        "absent.png": "no such file",
    }.items():
        with pytest.raises(UserError, match=words) as caught:
            open_image(tmp_path / name, name=str(tmp_path / name))
        assert name in str(caught.value)
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


def test_every_cut_of_a_png_is_a_user_error() -> None:
    data = encode(corner())
    for length in range(data.index(b"IDAT") + 8):  # whole pixels may do without the rest
        with pytest.raises(UserError):
            open_image(data[:length], name="cut.png")


@pytest.mark.parametrize("side", [int(MAX_PIXELS**0.5) + 1, 30_000])
def test_a_bomb_is_refused_before_it_is_decoded(side: int) -> None:
    bomb = png(struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0), b"")
    with pytest.raises(UserError, match="too many"):
        open_image(bomb, name="bomb.png")


def test_resize_squash_crop_pad() -> None:
    wide = Image.new("RGB", (40, 20))
    wide.paste((255, 0, 0), (0, 0, 10, 20))
    wide.paste((0, 0, 255), (30, 0, 40, 20))
    squash, crop, pad = (resize_square(wide, 20, fit) for fit in ("squash", "crop", "pad"))
    for array in (squash, crop, pad):
        assert array.shape == (3, 20, 20)
        assert array.dtype == np.uint8
        assert array.flags.c_contiguous
    assert squash[0, 10, 1] == 255  # red at the left is kept
    assert squash[2, 10, 18] == 255
    assert crop.max() == 0  # the central square is black
    assert pad[:, :5].max() == 0  # above and below
    assert pad[:, 15:].max() == 0
    assert pad[0, 10, 1] == 255


def test_resize_is_antialiased_and_leaves_the_right_size_alone() -> None:
    stripes = Image.fromarray((np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)).convert("RGB")
    assert np.abs(resize_square(stripes, 8).astype(int) - 127).max() <= 2
    assert (resize_square(stripes, 64) == np.asarray(stripes).transpose(2, 0, 1)).all()


def test_a_large_jpeg_is_decoded_smaller_but_large_enough() -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8))
    large = image.resize((1600, 1200), Image.Resampling.BICUBIC)
    data = encode(large, "JPEG", quality=95)
    small = open_image(data, name="it", at_least=100)
    assert small.size == (400, 300)
    assert open_image(data, name="it").size == (1600, 1200)
    difference = resize_square(small, 100).astype(int) - resize_square(open_image(data, name="it"), 100)
    assert np.abs(difference).mean() < 2
