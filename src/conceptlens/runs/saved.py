"""`model/` of a run: weights as safetensors, the rest as JSON; loading it runs no code and asks no hub."""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import file_hash, new_folder, read_json, write_json
from conceptlens.core.network import offline
from conceptlens.core.upgrades import upgrade_parameters
from conceptlens.data.dataset import Task
from conceptlens.data.images.read import Fit
from conceptlens.data.images.window import Window
from conceptlens.methods.contract import Pipeline
from conceptlens.recipes.parse import load_recipe

WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class Card:
    """What must be known to use the weights."""

    classes: list[str]
    task: Task
    image_size: int
    fit: Fit
    encoder: dict[str, str]
    thresholds: list[float] = field(default_factory=list)  # per class, chosen on validation
    concept_priors: list[float] = field(default_factory=list)  # share of each concept among training labels
    concept_counts: list[int] = field(default_factory=list)  # training images labeled with each; −1: none is labeled
    weights_hash: str = ""
    window: Window = "file"  # which values of deep gray become black and white


def save_model(folder: Path, weights: dict[str, Tensor], card: Card) -> None:
    with new_folder(folder) as aside:
        save_file({name: value.detach().cpu().contiguous() for name, value in weights.items()}, aside / WEIGHTS)
        write_json(aside / "model.json", asdict(replace(card, weights_hash=file_hash(aside / WEIGHTS))))


def load_card(folder: Path) -> Card:
    raw: Any = read_json(folder / "model.json")
    if isinstance(raw, dict):
        raw.pop("schema", None)
    try:
        return TypeAdapter(Card).validate_python(raw)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(f"{folder / 'model.json'}: {place}: {first['msg']}; not a model of this version.") from None


@offline()  # the run names its encoder, not the user
def load_pipeline(run: Path) -> tuple[Pipeline, Card, ConceptSet]:
    """The trained pipeline of a run, on the CPU, in evaluation mode."""
    from conceptlens.methods.build import Blueprint, build_pipeline

    card = load_card(run / "model")
    weights = run / "model" / WEIGHTS
    if not weights.exists():
        raise UserError(f"{weights}: the weights are missing. Train again, or copy the whole run folder.")
    manifest.check(weights)
    if file_hash(weights) != card.weights_hash:
        raise UserError(
            f"{weights}: the file is not the one that was saved (its hash differs). Copy the run folder again."
        )
    recipe = load_recipe(run / "recipe.yaml")
    recipe.encoder = replace(recipe.encoder, pretrained=False, weights=None)  # everything is in the weights
    concepts = ConceptSet.load(run / "concepts.yaml")
    if structure := card.encoder.get("structure"):
        recipe.encoder.options = {**recipe.encoder.options, "structure": structure}
    try:
        state = upgrade_parameters(load_file(weights))
    except (SafetensorError, OSError) as error:
        raise UserError(f"{weights}: cannot be read ({error}). Copy the run folder again.") from None
    # The concepts' vectors are among the weights: what read their texts may be large, or on a hub.
    pipeline = build_pipeline(Blueprint(recipe, concepts, tuple(card.classes), state.get("model.text")))
    try:
        pipeline.load_state_dict(state)
    except RuntimeError as error:
        raise UserError(
            f"{weights}: the weights do not fit the recipe: {str(error).splitlines()[-1].strip()}"
        ) from None
    for name, parameter in pipeline.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise UserError(f"{weights}: {name} holds values that are not finite numbers. Train the run again.")
    return pipeline.eval(), card, concepts
