"""Methods that may be told where parts are: what they do with the part that knows it (`nn.grounding.part_places`)."""

from collections.abc import Iterable

import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptModel, ConceptOutput
from conceptlens.nn.grounding.part_places import PartPlaces, slot_centroids
from conceptlens.nn.grounding.places import PlaceTargets, TrainingImages


class GroundedModel(ConceptModel):
    """A method with attention whose constructor sets `grounding`; it is None where nothing tells of places."""

    grounding: PartPlaces | None

    @property
    def part_names(self) -> tuple[str, ...]:
        """The parts that something is told of."""
        targets = None if self.grounding is None else self.grounding.targets
        return () if targets is None else targets.routes.parts

    def expected_logits(self, grid: tuple[int, int]) -> Tensor | None:
        """What the prior adds to the slots' attention logits, (S, L); None without one."""
        return None if self.grounding is None else self.grounding.log_expected(grid)

    def centers(self, attention: Tensor, grid: tuple[int, int]) -> Tensor | None:
        """Centers of the slots' attention (B, S, 2), where places are told."""
        return None if self.grounding is None else slot_centroids(attention, grid)

    def prepare(self, tokens: Iterable[Tokens], concepts: ConceptSet) -> ConceptSet:
        first = next(iter(tokens), None)
        if self.grounding is not None and first is not None:
            self.grounding.begin(first.grid)
        return concepts

    def find_places(self, images: TrainingImages) -> PlaceTargets | None:
        return None if self.grounding is None else self.grounding.find(images)

    def teach_places(self, output: ConceptOutput, places: PlaceTargets) -> ConceptOutput:
        if self.grounding is not None and output.centroids is not None:
            output.losses = {**output.losses, **self.grounding.alignment(output.centroids, places)}
        return output

    @torch.no_grad()
    def expected_maps(self, grid: tuple[int, int]) -> Tensor | None:
        """Where each concept's slot is expected before any image is seen, (K, L): the image-free baseline."""
        expected = self.expected_logits(grid)
        return None if expected is None else expected.exp()[self.concept_slot]

    def end_epoch(self, tokens: Tokens) -> dict[str, float]:
        return {} if self.grounding is None else self.grounding.drift()
