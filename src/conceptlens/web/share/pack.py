"""Answers as short text: JSON, gzip, base64. No letter of it means anything to an HTML parser."""

import base64
import gzip
import json
from typing import Any

from conceptlens.pages.pictures import base64_text


def packed(body: Any, status: int = 200) -> str:
    """An answer, as share/transport.js unpacks it."""
    text = json.dumps({"status": status, "body": body}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64_text(gzip.compress(text.encode(), 9, mtime=0))


def unpacked(text: str) -> Any:
    """The same back: {status, body}."""
    return json.loads(gzip.decompress(base64.b64decode(text)))


def block(value: Any) -> str:
    """JSON for a `<script type="application/json">`: nothing in it can end the script or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
