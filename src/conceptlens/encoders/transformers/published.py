"""What a `transformers/…` name stands for: `config.json`, `preprocessor_config.json` and safetensors in one folder.

- `transformers/ORGANIZATION/NAME`: a repository on the hub, such as `transformers/facebook/dinov2-base`.
- `transformers/local-dir:PATH`: a folder with the same files.

Weights are read as safetensors only, and no code that a repository brings is ever run.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.encoders.timm.hub import FILE, from_hub, weights_in
from conceptlens.encoders.weights_file import PICKLES, folder_with, read_weights

PREFIX, LOCAL, CONFIG, IMAGES = "transformers/", "local-dir:", "config.json", "preprocessor_config.json"
INSTEAD = f"Copy {CONFIG}, {IMAGES} and {FILE} of the repository into a folder and name it: `{PREFIX}{LOCAL}FOLDER`."
VISION = {"siglip": "vision_config", "clip": "vision_config"}  # models of two towers, of which the image's is read


def transformers() -> ModuleType:
    """The package, or how to get it."""
    try:
        import transformers as package
    except ImportError:
        raise UserError(
            f"{PREFIX}… needs the package transformers. Install it: pip install 'conceptlens[transformers]'"
        ) from None
    if int(package.__version__.partition(".")[0]) < 5:
        raise UserError(
            f"{PREFIX}… needs transformers 5 or newer, found {package.__version__}. Install it: "
            "pip install 'conceptlens[transformers]'"
        )
    return package


@dataclass(frozen=True)
class Published:
    """A vision model by name."""

    name: str
    config: dict[str, Any]
    images: dict[str, Any]  # its preprocessor's configuration; empty where it has none
    folder: Path | None = None
    repository: str | None = None

    @property
    def structure(self) -> str:
        """What builds it again where its files are out of reach."""
        return json.dumps({"config": self.config, "images": self.images})

    def weights_folder(self) -> Path:
        """The folder that holds its weights as safetensors, in one file or several."""
        if self.folder is not None:
            if (self.folder / f"{FILE}.index.json").is_file():
                return self.folder
            path = weights_in(self.folder)
            if path.suffix in PICKLES:
                read_weights(path)  # refuses it, with the line that converts it
            return self.folder
        assert self.repository is not None
        return from_hub(self.name, self.repository, FILE, instead=INSTEAD).parent


def resolve(name: str, structure: str | None = None) -> Published:
    """What a name stands for; with `structure`, what an encoder's `structure` said, nothing is looked up."""
    plain = name.removeprefix(PREFIX)
    if structure is not None:
        try:
            known = json.loads(structure)
            return Published(name, dict(known["config"]), dict(known["images"]))
        except (ValueError, TypeError, KeyError):
            raise UserError(f"{name}: expected its configuration as JSON, found {structure!r}.") from None
    if plain.startswith(LOCAL):
        folder = folder_with(CONFIG, plain.removeprefix(LOCAL), name)
        images = folder / IMAGES
        return Published(name, _config(folder / CONFIG), read_json(images) if images.is_file() else {}, folder=folder)
    if plain.count("/") != 1:
        raise UserError(f"{name}: expected `{PREFIX}ORGANIZATION/NAME` or `{PREFIX}{LOCAL}FOLDER`.")
    config = _config(from_hub(name, plain, CONFIG, instead=INSTEAD))
    return Published(name, config, read_json(from_hub(name, plain, IMAGES, instead=INSTEAD)), repository=plain)


def _config(path: Path) -> dict[str, Any]:
    config = read_json(path)
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        hint = " A model of timm is named `timm/local-dir:…` or `timm/hf-hub:…`." if "architecture" in config else ""
        raise UserError(f"{path}: expected a configuration of transformers with the key `model_type`.{hint}")
    if "auto_map" in config:
        raise UserError(f"{path}: this model brings code of its own, which is never run. Choose another.")
    return config
