"""What people call the three sides of a split."""

from conceptlens.data.labels.words import fold

_NAMES = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
}


def split_of(name: str) -> str | None:
    """`train`, `val`, `test`, or None for a name that is none of them."""
    return _NAMES.get(fold(name))
