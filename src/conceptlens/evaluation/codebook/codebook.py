"""The audit of a codebook, put together from one pass."""

import numpy as np
import torch
from scipy.stats import spearmanr

from conceptlens.concepts import ConceptSet
from conceptlens.data.dataset import DataSource
from conceptlens.encoders.contract import Tokens
from conceptlens.evaluation.codebook.codes import Profile, profile
from conceptlens.evaluation.codebook.collect import Collected
from conceptlens.evaluation.codebook.document import Code, Codebook, ConceptFinding, Matching, NearPatch
from conceptlens.evaluation.codebook.matching import by_co_assignment, by_labels, by_text, slot_columns
from conceptlens.evaluation.codebook.projection import principal, umap, umap_is_there
from conceptlens.evaluation.codebook.readings import read_patches
from conceptlens.evaluation.codebook.survey import Survey
from conceptlens.explanations.pictures.colors import code_color
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.quantization.usage import codebook_use, perplexity
from conceptlens.runs.predictions import units_of

LEAST = 5  # pairs from which on a correlation is spoken of


def audit_codebook(
    found: Collected,
    pipeline: Pipeline,
    concepts: ConceptSet,
    source: DataSource,
    audited: list[ConceptFinding],
    *,
    resamples: int = 1000,
) -> Codebook | None:
    """Everything about the codes; None without a codebook."""
    survey = found.survey
    if survey is None or not survey.patches:
        return None
    rows = found.indices[: len(survey.counts)]
    labels, units = source.examples.labels[rows], units_of(source, rows)
    matchings, without = match_all(survey, pipeline, concepts, source, found, list(units))
    made = profile(survey, found.grid, labels, len(source.classes), units, found.on_object, resamples=resamples)
    names = {each.kind: {pair.code: pair.concept for pair in each.matches if pair.sure} for each in matchings}
    assert survey.places is not None
    total = survey.places.sum(1)
    patches, codes = survey.sample()
    vectors = survey.codebook.double().cpu().numpy()
    projections = [principal(vectors, patches.astype(np.float64), codes)]
    if umap_is_there():
        projections += [umap(vectors, patches.astype(np.float64), codes, d) for d in (2, 3)]
    entries = [_code(code, survey, made, source, found, names, int(total[code])) for code in range(len(vectors))]
    return Codebook(
        kind="explicit" if _explicit(pipeline) else "implicit",
        size=len(vectors),
        use=codebook_use(total) or 0.0,
        perplexity=perplexity(total),
        explained=survey.explained,
        even_share=1 / len(vectors),
        codes=entries,
        matchings=matchings,
        without=without,
        projections=projections,
        dormant_and_bad=dormant_and_bad(entries, matchings, audited),
    )


def _explicit(pipeline: Pipeline) -> bool:
    """Whether the model sees the codes in the tokens' place."""
    width = pipeline.encoder.width
    device = next(pipeline.parameters()).device
    patches = torch.randn(1, 4, width, generator=torch.Generator().manual_seed(0)).to(device)
    with torch.inference_mode():
        seen = pipeline.regularizer(Tokens(patches, (2, 2))).tokens.patches
    return not torch.allclose(seen, patches, atol=1e-5)


def match_all(
    survey: Survey, pipeline: Pipeline, concepts: ConceptSet, source: DataSource, found: Collected, units: list[str]
) -> tuple[list[Matching], dict[str, str]]:
    """Codes and concepts by co-assignment, labels and text, as far as the method and the data allow."""
    matchings: list[Matching] = []
    without: dict[str, str] = {}
    if survey.mass is None or survey.permuted is None:
        without["co-assignment"] = "the method does not share patches among slots"
    else:
        slots = pipeline.model.concept_slot.cpu().numpy()
        columns = slot_columns(concepts.names, concepts.group_of, [group.name for group in concepts.groups], slots)
        if columns:
            matchings.append(by_co_assignment(survey.mass.numpy(), survey.permuted.numpy(), columns))
        else:
            without["co-assignment"] = "several groups of concepts read one slot"
    labeled = by_labels(survey.counts, source.examples.concepts[found.indices[: len(units)]], units, concepts.names)
    if labeled is None:
        without["labels"] = "no concept of these images has a label"
    else:
        matchings.append(labeled)
    sample = torch.from_numpy(survey.sample()[0]).to(survey.codebook.device)
    readings = read_patches(pipeline, concepts, torch.cat([survey.codebook, sample]))
    if isinstance(readings, str):
        without["text"] = readings
    else:
        matchings.append(by_text(readings[: survey.codes], readings[survey.codes :], concepts.names))
    return matchings, without


def _code(
    code: int,
    survey: Survey,
    made: Profile,
    source: DataSource,
    found: Collected,
    names: dict[str, dict[int, str]],
    patches: int,
) -> Code:
    concepts = {kind: pairs[code] for kind, pairs in names.items() if code in pairs}
    width = found.grid[1]
    neighbor = int(made.neighbor[code])
    return Code(
        code=code,
        patches=patches,
        share=made.share[code],
        images=int(made.images[code]),
        classes={
            name: float(share)
            for name, share in zip(source.classes, made.by_class[:, code], strict=True)
            if not np.isnan(share)
        },
        class_dependence=_number(made.dependence[code]),
        class_p=_number(made.dependence_p[code]),
        distance=float(survey.distance[code]) / patches if patches else None,
        border=_number(made.border[code]),
        on_object=_number(made.on_object[code]),
        nearest_code=neighbor if neighbor >= 0 else None,
        nearest_code_distance=_number(made.neighbor_distance[code]),
        kinds=made.kinds(code, len(survey.codebook), len(found.indices)),
        concepts=concepts,
        near=[
            NearPatch(image=source.examples.ids[image], row=patch // width, column=patch % width, distance=distance)
            for image, patch, distance in survey.nearest.of(code)
        ],
        color=code_color(code, bool(concepts.get("co-assignment") or concepts.get("labels"))),
    )


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def dormant_and_bad(codes: list[Code], matchings: list[Matching], audited: list[ConceptFinding]) -> str | None:
    """Whether codes that are seldom used are matched with concepts that are read badly (Appendix K.3 supposes so)."""
    quality = {each.concept: each.auc for each in audited if each.auc is not None}
    for kind in ("co-assignment", "labels"):
        found = next((each for each in matchings if each.kind == kind), None)
        pairs = [
            (codes[each.code].share.value or 0.0, quality[each.concept])
            for each in (found.matches if found else [])
            if each.concept in quality
        ]
        if len(pairs) >= LEAST and len({share for share, _ in pairs}) > 1 and len({auc for _, auc in pairs}) > 1:
            result = spearmanr(*zip(*pairs, strict=True))
            rank, p = float(result.statistic), float(result.pvalue)
            verdict = (
                "goes with" if p < 0.05 and rank > 0 else "goes against" if p < 0.05 else "says nothing certain of"
            )
            return (
                f"How often a code is used {verdict} how well its concept (by {kind}) is read: rank correlation "
                f"{rank:+.2f}, p = {p:.3f}, {len(pairs)} pairs."
            )
    return None
