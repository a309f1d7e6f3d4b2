"""Pictures as bytes, and bytes as addresses that a page can hold."""

import base64
import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image


def encode_image(image: "Image", kind: str, **options: Any) -> bytes:
    """The bytes of a file: `kind` and `options` as Pillow's `save` takes them."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def base64_text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def data_address(content: bytes, media_type: str) -> str:
    """An address with its bytes inside."""
    return f"data:{media_type};base64,{base64_text(content)}"
