"""A trained conceptlens run up to its named concepts; a `black-box` run up to its classes."""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.gig.models.loaded import Asked, LoadedModel
from conceptlens.gig.preprocessing import Preprocessing


def prefix_tokens_of(encoder: nn.Module) -> int | None:
    """Class token and registers of an encoder, which have no place in the image; None where it does not say."""
    registers = getattr(encoder, "registers", None)
    if isinstance(registers, Tensor):
        return 1 + registers.shape[1]
    prefix = getattr(getattr(encoder, "model", None), "num_prefix_tokens", None)
    return prefix if isinstance(prefix, int) else None


class ConceptTower(nn.Module):
    """A trained run up to its named concepts, (B, K), or, where it has none, to its class logits (B, C)."""

    def __init__(self, encoder: nn.Module, regularizer: nn.Module, model: nn.Module, read: Any) -> None:
        super().__init__()
        self._reads_concepts = bool(getattr(model, "reads_concepts", True))
        self.encoder, self.regularizer, self.model = encoder, regularizer, model
        self._read = [read]  # in a list: as a submodule it would give every layer a second name
        prefix = prefix_tokens_of(encoder)
        if prefix is not None:
            self.num_prefix_tokens = prefix

    def forward(self, images: Tensor) -> Tensor:
        output = self._read[0](images)
        logits: Tensor = output.concept_logits if self._reads_concepts else output.logits
        return logits


def open_run(path: Path, asked: Asked) -> LoadedModel:
    if asked != Asked(seed=asked.seed):
        raise UserError(
            f"{path} is a run: its weights, outputs, image size and normalization are its own; leave them out."
        )
    from conceptlens.runs.opened import OpenedRun

    run = OpenedRun.open(path, device="cpu")
    pipeline, card, concepts = run.pipeline, run.card, run.read_concepts
    tower = ConceptTower(pipeline.encoder, pipeline.regularizer, pipeline.model, pipeline)
    return LoadedModel(
        name=f"run {path.resolve().name}",
        module=tower.eval(),
        image_size=card.image_size,
        outputs=concepts.names or list(card.classes),
        preprocessing=Preprocessing(source="the run's encoder normalizes by itself"),
        fit=card.fit,
        window=card.window,
        target="logit" if len(concepts) or card.task == "multilabel" else "probability",
        what="concept" if len(concepts) else "class",
    )
