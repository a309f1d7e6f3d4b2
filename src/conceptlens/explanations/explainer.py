"""From a batch of images to explanations: one pass through the model, one backward pass for each map's place."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.explanations.document import (
    AnyMap,
    ConceptMaps,
    ConceptReading,
    Drawing,
    Explanation,
)
from conceptlens.explanations.maps.gradcam import Watched, watch
from conceptlens.explanations.maps.patch_maps import index_map, patch_map
from conceptlens.explanations.reference import Background
from conceptlens.explanations.subjects import Subject
from conceptlens.explanations.verdict import Judge, Verdict, class_readings
from conceptlens.methods.contract import ConceptOutput, Pipeline
from conceptlens.runs.saved import Card


@dataclass
class Teller:
    """Explains batches with one model.

    Attributes:
        wanted: Concepts whose maps are wanted; None for those that decided each image.
        kinds: Maps that are wanted.
    """

    pipeline: Pipeline
    card: Card
    concepts: ConceptSet
    background: Background
    run: str
    wanted: Sequence[int] | None
    kinds: Sequence[AnyMap]
    drawing: Drawing

    def tell(self, subjects: Sequence[Subject]) -> list[Explanation]:
        """Explanations of images that could be read, without the names of their pictures."""
        pixels = torch.from_numpy(np.stack([each.pixels for each in subjects if each.pixels is not None]))
        pixels = pixels.to(next(self.pipeline.parameters()).device)
        watched: Watched | None = None
        if "gradcam" in self.kinds:
            watched = watch(self.pipeline, pixels)
            output, grid = watched.output, watched.grid
        else:
            with torch.inference_mode():
                tokens = self.pipeline.encoder(pixels)
                output, grid = self.pipeline.read(tokens), tokens.grid
        judge = Judge(self.pipeline.model, self.card, self.concepts, self.background, self.wanted)
        verdicts = judge.of(subjects, output)
        shown = [[ConceptMaps(concept=self.concepts.names[k]) for k in verdict.concepts] for verdict in verdicts]
        width = max(len(verdict.concepts) for verdict in verdicts)
        if watched and width:
            # An image that fewer concepts decided is filled up with any; what is too much is not looked at.
            filled = [(verdict.concepts + [0] * width)[:width] for verdict in verdicts]
            found = watched.maps(torch.tensor(filled, device=pixels.device)).cpu().numpy()
            for maps, rows in zip(shown, found, strict=True):
                for each, row in zip(maps, rows, strict=False):
                    each.gradcam = patch_map(row, grid)
        return [
            self._explanation(verdict, maps, output, row, grid, watched.place if watched else None)
            for row, (verdict, maps) in enumerate(zip(verdicts, shown, strict=True))
        ]

    def _attention(self, maps: list[ConceptMaps], verdict: Verdict, attention: Tensor, grid: tuple[int, int]) -> None:
        """Fill in the slots' weights, (S, L)."""
        for each, k in zip(maps, verdict.concepts, strict=True):
            slot = int(self.pipeline.model.concept_slot[k])
            each.attention = patch_map(attention[slot].detach().float().cpu().numpy(), grid, slot)

    def _explanation(
        self,
        verdict: Verdict,
        maps: list[ConceptMaps],
        output: ConceptOutput,
        row: int,
        grid: tuple[int, int],
        place: str | None,
    ) -> Explanation:
        card, subject = self.card, verdict.subject
        without: dict[AnyMap, str] = {}
        if "attention" in self.kinds:
            if output.attention is None:
                without["attention"] = "this method reads the image as a whole and has no attention over patches"
            else:
                self._attention(maps, verdict, output.attention[row], grid)
        index = None
        if "index" in self.kinds:
            if output.codes is None:
                without["index"] = "this run has no codebook"
            else:
                index = index_map(output.codes[row], grid, self.background)
        return Explanation(
            image=subject.image,
            run=self.run,
            weights=card.weights_hash,
            split=subject.split,
            truth=subject.truth,
            predicted=verdict.predicted,
            about=card.classes[verdict.about],
            rival=None if verdict.rival is None else card.classes[verdict.rival],
            sentence=verdict.sentence,
            classes=class_readings(card.task, card.classes, card.thresholds, verdict.shares, verdict.logits),
            concepts=self._readings(verdict),
            reference=self.background.reference,
            accounts=verdict.accounts,
            bypass=self.pipeline.model.bypass,
            maps=maps,
            index=index,
            without=without,
            gradcam_at=place,
            drawing=self.drawing,
            picture=None,
        )

    def _readings(self, verdict: Verdict) -> list[ConceptReading]:
        labels = verdict.subject.labels or [-1] * len(self.concepts)
        return [
            ConceptReading(
                name=concept.name,
                group=concept.group,
                value=concept.value,
                text=concept.text,
                part=concept.part,
                score=score,
                probability=share,
                label=None if label < 0 else label == 1,
            )
            for concept, score, share, label in zip(
                self.concepts.concepts, verdict.scores.tolist(), verdict.read.tolist(), labels, strict=True
            )
        ]
