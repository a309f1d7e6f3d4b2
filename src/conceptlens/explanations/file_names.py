"""File names for explanations: readable, safe, and one for each image."""

import re
from pathlib import Path

from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint, read_json

LONGEST = 50  # letters; a file system counts bytes, of which a letter may have four


def slug(words: str) -> str:
    """Letters, digits, dots, hyphens and underscores; of any alphabet."""
    return re.sub(r"[^\w.\-]+", "-", words).strip("-._")[:LONGEST] or "image"


class Names:
    """Gives each image a name in a folder; two images called the same get one each, and keep it on later calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._taken: dict[str, str] = {}

    def of(self, image: str) -> str:
        """The name of an image, given by its path or id."""
        plain = slug(Path(image).stem)
        if plain.startswith("sheet-") or plain == "reference":  # names of other files
            plain = f"image-{plain}"
        name = plain if self._free(plain, image) else f"{plain}-{fingerprint(image)[:6]}"
        self._taken[name] = image
        return name

    def _free(self, name: str, image: str) -> bool:
        if name in self._taken:
            return self._taken[name] == image
        file = self.folder / f"{name}.json"
        if not file.exists():
            return True
        try:
            return bool(read_json(file)["image"] == image)
        except (UserError, KeyError, TypeError):
            return True  # damaged: written anew
