"""Answers made fit to be sent: no path of this machine, no more digits than a number has."""

import re
from typing import Any

DIGITS = 9  # with so many a float32 is itself again
_END = r"\s/\\\"'<>|*?,;:()"
_PATH = re.compile(rf"(?<![\w.:/<+&])(?:~|[A-Za-z]:)?[/\\](?:[^{_END}]+[/\\])+([^{_END}]*)")
_OURS = ("/api/v1/", "data:")
_PACKED = {"of", "scale", "data"}  # maps as bytes: base64 has slashes of its own


def clean(value: Any) -> Any:
    """A JSON value without paths of this machine and with rounded numbers."""
    if isinstance(value, dict):
        if set(value) == _PACKED:
            return {**value, "scale": clean(value["scale"])}
        return {without_paths(name): clean(each) for name, each in value.items()}
    if isinstance(value, list):
        return [clean(each) for each in value]
    if isinstance(value, str):
        return without_paths(value)
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def without_paths(text: str) -> str:
    """Paths that begin at a root, a drive or a home, shortened to their last part."""
    if text.startswith(_OURS):
        return text
    return _PATH.sub(lambda found: f"…/{found[1]}", text)
