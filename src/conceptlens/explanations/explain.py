"""Why a run says what it says of images: explanations in memory. `explain_files` writes them and their pictures."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import get_args

import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.explanations.answer import Answerer
from conceptlens.explanations.document import AnyMap, ConceptMaps, Drawing, Explanation
from conceptlens.explanations.image_answer import Answer
from conceptlens.explanations.maps.patch_maps import evidence_map, index_map, patch_map
from conceptlens.explanations.pictures.overlay import OPACITY, drawing
from conceptlens.explanations.subjects import Images, Subject, choose_subjects
from conceptlens.methods.contract import ConceptModel
from conceptlens.runs.opened import OpenedRun

MAPS: tuple[AnyMap, ...] = get_args(AnyMap)


@dataclass(frozen=True, repr=False)
class ExplanationList(Sequence[Explanation]):
    """Explanations of the images that could be read, in their order."""

    items: list[Explanation]
    errors: dict[str, str] = field(default_factory=dict)  # by image: why it could not be read

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        return self.items[place]

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.items)

    def __repr__(self) -> str:
        """What a console shows."""
        return "\n".join([*map(repr, self.items), *(f"{image}: {why}" for image, why in self.errors.items())])

    def _repr_html_(self) -> str:
        return "".join(item._repr_html_() for item in self.items)


def explain(
    run: OpenedRun,
    images: Images = (),
    *,
    concepts: Sequence[str] | None = None,
    maps: Sequence[str] = (),
    split: str = "test",
    n: int = 12,
    show: str = "all",
    opacity: float = OPACITY,
) -> ExplanationList:
    """Explain images in memory; nothing is written.

    Args:
        run: The run.
        images: Files, folders, PIL images, arrays, tensors, a `Dataset`, a `DataLoader`, or a list of them; none for
            images of the run's own data.
        concepts: Whose maps are wanted: concepts, groups, or `all`; by default those that decided each image.
        maps: Of `evidence`, `attention`, `gradcam` and `index`; by default the method's own, `gradcam` and `index`.
        split: Of the run's own data.
        n: At most so many of its images.
        show: Which: `right` and `wrong`, the surest first; `uncertain`, the least sure first; `all`, evenly spread.
        opacity: Of a map where it is largest, 0 to 1.
    """
    kinds = check_maps(maps, opacity)
    run.need_concepts("there is nothing to explain its classes by")
    wanted = None if concepts is None else choose_concepts(run.concepts, concepts)
    subjects = choose_subjects(run, images, split=split, n=n, show=show)
    kinds = kinds or usual_maps(run.pipeline.model)
    items: list[Explanation] = []
    errors: dict[str, str] = {}
    for subject, explanation in explain_each(Answerer.of(run), run.name, subjects, kinds, wanted, opacity):
        if explanation is None:
            errors[subject.image] = subject.error or ""
        else:
            items.append(explanation)
    return ExplanationList(items, errors)


def explain_each(
    answerer: Answerer,
    run: str,
    subjects: Iterable[Subject],
    kinds: Sequence[AnyMap],
    wanted: Sequence[int] | None,
    opacity: float,
) -> Iterator[tuple[Subject, Explanation | None]]:
    """Image by image, a batch in memory at a time; None for one that could not be read."""
    how = drawing(opacity)
    for answer in answerer.stream(subjects, maps=kinds, concepts=wanted):
        explanation = None if answer.error else explanation_of(answer, run, wanted, how)
        yield answer.subject, explanation


def explanation_of(answer: Answer, run: str, wanted: Sequence[int] | None, how: Drawing) -> Explanation:
    """The part of an answer that `explain` tells; its maps are of the wanted concepts, or of those that decided."""
    maps, answerer = answer.maps, answer.answerer
    shown = []
    for k in answer.deciding if wanted is None else wanted:
        entry = ConceptMaps(concept=answerer.concepts.names[k], placeless=answerer.concepts.concepts[k].placeless)
        shown.append(entry)
        if maps is None or entry.placeless:
            continue
        if maps.evidence is not None and maps.unplaced is not None:
            unplaced, logit = float(maps.unplaced[k]), float(answer.concept_logits[k])
            entry.evidence = evidence_map(maps.evidence[k], maps.grid, unplaced, logit)
        slot = answer.slot(k)
        if maps.attention is not None and slot is not None:
            entry.attention = patch_map(maps.attention[slot], maps.grid, slot)
        if k in maps.gradcam:
            entry.gradcam = patch_map(maps.gradcam[k], maps.grid)
    index = None
    if maps and maps.codes is not None:
        index = index_map(torch.from_numpy(maps.codes), maps.grid, answerer.background)
    explanation = Explanation(
        image=answer.image,
        run=run,
        weights=answerer.card.weights_hash,
        split=answer.subject.split,
        truth=answer.truth,
        predicted=answer.predicted,
        about=answer.about_class,
        rival=answer.rival_class,
        sentence=answer.sentence,
        classes=answer.classes,
        concepts=answer.concepts,
        reference=answerer.background.reference,
        account=answer.account,
        decompositions=answer.decompositions,
        bypass=answer.bypass,
        maps=shown,
        index=index,
        without=maps.without if maps else {},
        gradcam_at=maps.gradcam_at if maps else None,
        drawing=how,
        picture=None,
        unlike_training=answer.unlike_training,
        prediction_set=answer.prediction_set,
        cautions=answer.cautions,
        map_captions=answerer.map_captions,
    )
    explanation.seen = answer.subject.picture
    return explanation


def usual_maps(model: ConceptModel) -> list[AnyMap]:
    """The kinds that are drawn if none is asked for: the method's own map, Grad-CAM, and nearest codes."""
    return ["evidence" if model.has_evidence else "attention", "gradcam", "index"]


def check_maps(maps: Sequence[str], opacity: float) -> list[AnyMap]:
    """The kinds of maps that are asked for, in their usual order."""
    for name in maps:
        if name not in MAPS:
            raise unknown_name("map", name, MAPS)
    if not 0 <= opacity <= 1:
        raise UserError(f"--opacity: expected a number from 0 to 1, found {opacity}.")
    return [kind for kind in MAPS if kind in maps]


def choose_concepts(concepts: ConceptSet, wanted: Sequence[str]) -> list[int]:
    """Positions of concepts by name ("group: value"), of all of a group, or of all; each may list several by commas."""
    groups = {group.name: list(range(group.concepts.start, group.concepts.stop)) for group in concepts.groups}
    known = {"all": list(range(len(concepts))), **groups, **{name: [k] for k, name in enumerate(concepts.names)}}
    columns: list[int] = []
    for word in wanted:
        for name in [word] if word.strip() in known else word.split(","):
            if name.strip() not in known:
                raise unknown_name("concept", name.strip(), known)
            columns += known[name.strip()]
    return list(dict.fromkeys(columns))
