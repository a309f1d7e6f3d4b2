"""What a `timm/…` name stands for: a model of timm's list, or a `config.json` on the hub or in a folder.

- `timm/vit_base_patch16_224.augreg_in21k`: a name of timm's list, with or without the tag of its weights.
- `timm/hf-hub:ORGANIZATION/NAME`: a repository with timm's `config.json` (UNI, Virchow2, Prov-GigaPath, H-optimus, …).
- `timm/local-dir:PATH`: a folder with the same `config.json` and `model.safetensors`.
"""

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import read_json
from conceptlens.encoders.timm.hub import FILE, INSTEAD, from_hub, published_weights, weights_in
from conceptlens.encoders.weights_file import folder_with

PREFIX, HUB, LOCAL, CONFIG = "timm/", "hf-hub:", "local-dir:", "config.json"


@dataclass(frozen=True)
class Published:
    """A timm model by name."""

    name: str  # `timm/…`
    architecture: str  # as `timm.create_model` takes it
    options: dict[str, Any] = field(default_factory=dict)  # keywords that its configuration sets
    config: dict[str, Any] | None = None  # its `pretrained_cfg`; None: that of timm's list
    structure: dict[str, Any] | None = None  # what builds it again where its files are out of reach
    folder: Path | None = None
    repository: str | None = None

    def weights(self, own_config: Mapping[str, Any], instead: str = INSTEAD) -> Path:
        """The file of its weights.

        Args:
            own_config: The built model's `pretrained_cfg`.
            instead: What to do if it cannot be had.
        """
        if self.folder is not None:
            return weights_in(self.folder)
        if self.repository is not None:
            repository, _, revision = self.repository.partition("@")
            return from_hub(self.name, repository, FILE, instead=instead, revision=revision or None)
        return published_weights(self.name, dict(own_config), instead)


def timm_names() -> list[str]:
    """All models of timm, with the tags of their published weights and without."""
    import timm

    return sorted({*timm.list_models(), *timm.list_models(pretrained=True)})


def read_structure(name: str, structure: str | None) -> dict[str, Any] | None:
    """What an encoder's `structure` said, from its JSON."""
    if structure is None:
        return None
    try:
        return dict(json.loads(structure))
    except (ValueError, TypeError):
        raise UserError(f"{name}: expected its configuration as JSON, found {structure!r}.") from None


def resolve(name: str, structure: dict[str, Any] | None = None, *, kind: str = "encoder") -> Published:
    """What a name stands for.

    Args:
        name: With or without `timm/`.
        structure: The content of `config.json` where it is known already; nothing is looked up then.
        kind: What it shall be, for the error of an unknown name.
    """
    short = name.removeprefix(PREFIX)
    name = PREFIX + short
    if structure is not None:
        return _described(name, structure, name)
    if short.startswith(LOCAL):
        folder = folder_with(CONFIG, short.removeprefix(LOCAL), name)
        return _described(name, read_json(folder / CONFIG), str(folder / CONFIG), folder=folder)
    if short.startswith(HUB):
        repository = short.removeprefix(HUB)
        plain, _, revision = repository.partition("@")
        instead = (
            f"Copy {CONFIG} and {FILE} of the repository into a folder and name it: `{PREFIX}{LOCAL}FOLDER`. "
            f"Where its owner must grant access, ask for it on the hub and log in with `hf auth login`."
        )
        path = from_hub(name, plain, CONFIG, instead=instead, revision=revision or None)
        return _described(name, read_json(path), f"{repository}/{CONFIG}", repository=repository)
    known = timm_names()
    if short not in known:
        raise unknown_name(kind, name, [PREFIX + other for other in known])
    return Published(name, short)


def _described(name: str, structure: Any, source: str, **places: Any) -> Published:
    """A configuration that has been looked at: timm's keys, old (all beside each other) or new (`pretrained_cfg`)."""
    import timm

    architecture = structure.get("architecture") if isinstance(structure, dict) else None
    if not isinstance(architecture, str):
        hint = "A model of transformers is named `transformers/…`." if "model_type" in (structure or {}) else ""
        raise UserError(f"{source}: expected timm's configuration with the key `architecture`. {hint}".rstrip())
    if not timm.is_model(architecture.partition(".")[0]):
        raise UserError(
            f"{source}: this timm ({timm.__version__}) has no {architecture!r}. Update it: pip install -U timm."
        )
    config = structure.get("pretrained_cfg") or {key: structure[key] for key in ("mean", "std") if key in structure}
    options = structure.get("model_args") or {}
    if not isinstance(config, dict) or not isinstance(options, dict):
        raise UserError(f"{source}: expected objects under `pretrained_cfg` and `model_args`.")
    # `checkpoint_path` among them would have timm unpickle a file.
    if refused := sorted(inspect.signature(timm.create_model).parameters.keys() & options.keys()):
        raise UserError(f"{source}: model_args: {refused[0]!r} says how a model is loaded, not what it is.")
    return Published(name, architecture, dict(options), dict(config), structure, **places)
