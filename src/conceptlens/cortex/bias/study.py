"""`conceptlens codebook bias`: from a study to tables, a sheet, and what judges see (CORTEX paper, section 5.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.progress import Note
from conceptlens.cortex.bias.bias import Bias, correct_together, measure_bias
from conceptlens.cortex.drawn import Drawn
from conceptlens.cortex.extractors.importance import VARIANTS
from conceptlens.cortex.generators.condition import Condition, parse_condition
from conceptlens.cortex.generators.contract import VQModel
from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.judges import Judges, open_judges
from conceptlens.cortex.masking import Judge
from conceptlens.cortex.pictures import sheet
from conceptlens.cortex.results import Result, first_of_each, score_samples, write_result
from conceptlens.cortex.samples import Samples, draw_seed
from conceptlens.cortex.study import MEMORY, Study
from conceptlens.cortex.token_sets import WAYS, TokenSet, image_sets, rival_sets


@dataclass(frozen=True)
class _Counted:
    """What one study found, before p-values are corrected together with those of others."""

    study: Study
    folder: Path
    train: Samples
    asked: str
    neutral: Tensor
    null: str
    found: dict[int, Bias]  # by tokens of each image


def bias_result(study: Study, *, out: str | Path | None = None, **settings: Any) -> Result:
    """As `bias_results` for one study, whose files may go elsewhere."""
    return bias_results([study], out=[out], **settings)[0]


def bias_results(
    studies: Sequence[Study],
    *,
    n: Sequence[int] = (5, 10, 20),
    k: int = 10,
    sets: str = "frequency",
    neutral: int = 2000,
    condition: str = "neutral",
    unbiased: str | Path | VQModel | None = None,
    limit: int = 1000,
    permutations: int = 200,
    variant: str = "paper",
    judges: Judges = (),
    seed: int = 0,
    out: Sequence[str | Path | None] | None = None,
    note: Note = lambda text: None,
) -> list[Result]:
    """Section 5.1: token sets of the studies' concepts counted in samples for which none of them was asked.

    Args:
        studies: One for each attribute: its concepts are the values, such as `cell size=big` and `cell size=small`.
            p-values are corrected over all pairs of values of all of them.
        n: Tokens taken of each image, one table each.
        k: Tokens of a set.
        sets: How they are chosen: by `frequency` (the paper) or by `lift`, see `token_sets`.
        neutral: How many neutral samples.
        condition: What they are asked for instead.
        unbiased: A model without the bias, with the same codebook; by default the balanced samples are the study's own,
            equally many of each concept.
        limit: Training samples of each concept whose importance is computed.
        permutations: Of the attribute's values.
        variant: Token importance as in the paper, or as in the authors' code: see `VARIANTS`.
        judges: Say what neutral samples show: the true shares, as far as they are right.
        seed: Of everything drawn.
        out: Folder for the files of each study.
        note: Called with progress messages.
    """
    if sets not in WAYS:
        raise unknown_name("way to choose tokens", sets, WAYS)
    if variant not in VARIANTS:
        raise unknown_name("variant of token importance", variant, VARIANTS)
    folders = [study.folder(place) for study, place in zip(studies, out or [None] * len(studies), strict=True)]
    if len(set(folders)) < len(folders):
        raise UserError("Bias of several attributes: a study is named twice.")
    for study in studies:
        if not study.model.generates:
            raise UserError(
                f"{study.model.name} does not generate: bias is measured in samples that a model makes when not asked."
            )
    drawn: dict[tuple[str, int], Tensor] = {}  # studies of one model share its samples

    def samples_of(model: VQModel, key: str, seed: int, place: Path | None) -> tuple[str, Tensor]:
        asked = parse_condition(condition, model.classes, model.attributes)
        if (key, seed) not in drawn:
            drawn[key, seed] = draw(model, asked, neutral, seed=seed, note=note, place=place)
        return asked.text(), drawn[key, seed]

    def count(study: Study, folder: Path) -> _Counted:
        codes = len(study.codebook)
        train = first_of_each(study.samples["train"], limit)
        note("importance of training samples")
        scores = score_samples(study, train, VARIANTS[variant], seed=seed)
        about = study.run.info["model"]
        memory = about["name"] == MEMORY  # what an object draws may change without a trace
        key = f"object {id(study.model)}" if memory else str(about)
        asked, samples = samples_of(study.model, key, seed, None if memory else study.run.path)
        if unbiased is not None:
            other = open_model(unbiased).to(study.device)
            study.extractor.check_codebook(other.codebook)
            memory = not isinstance(unbiased, str | Path)
            name = other.name if memory else str(unbiased)
            place = None if memory else study.run.path
            balanced, null = samples_of(other, "unbiased", seed + 1, place)[1], f"neutral samples of {name}"
        else:
            balanced, fewest = _equally_many(study, neutral)
            null = f"{fewest} samples of each concept, asked for by name"
        found: dict[int, Bias] = {}
        for number in n:
            images = value_images(train, scores, number)
            found[number] = measure_bias(
                value_sets(images, number, k, codes, sets),
                samples,
                codes=codes,
                balanced=balanced,
                training=images,
                k=k,
                permutations=permutations,
                way=sets,
                seed=seed,
            )
        return _Counted(study, folder, train, asked, samples, null, found)

    counted = [count(study, folder) for study, folder in zip(studies, folders, strict=True)]
    for number in n:
        together = correct_together([each.found[number] for each in counted])
        for each, bias in zip(counted, together, strict=True):
            each.found[number] = bias
    return [_written(each, k, sets, variant, judges, len(studies)) for each in counted]


def _equally_many(study: Study, most: int) -> tuple[Tensor, int]:
    """Samples of a study that its extractor did not learn from, equally many of each concept, and how many."""
    rest = [study.samples[name] for name in ("val", "test")]
    fewest = min(int(torch.bincount(torch.cat([part.labels for part in rest])).min()), most)
    concepts = range(len(rest[0].concepts))
    return torch.cat([torch.cat([part.of(place) for part in rest])[:fewest] for place in concepts]), fewest


def _written(counted: _Counted, k: int, sets: str, variant: str, judges: Judges, attributes: int) -> Result:
    study, samples, train = counted.study, counted.neutral, counted.train
    words = [
        f"{len(samples)} samples for {counted.asked!r}; token sets by {sets}; no bias looks like: {counted.null}"
        + (f"; p-values corrected over {attributes} attributes" if attributes > 1 else "")
    ]
    words += [f"top {count}: {line}" for count, bias in counted.found.items() for line in bias.text().splitlines()]
    data: dict[str, Any] = {
        "condition": counted.asked,
        "neutral": len(samples),
        "null": counted.null,
        "k": k,
        "sets": sets,
        "variant": variant,
        "attributes": attributes,
        "tables": [{"n": count, **_bias_json(bias)} for count, bias in counted.found.items()],
    }
    for path, judge in open_judges(judges, study.extractor.card.concepts).items():
        shares = judged_shares(study, samples, judge)
        data.setdefault("judged", []).append({"judge": path, "shares": shares})
        words.append(f"{path} sees " + ", ".join(f"{name} in {share:.3f}" for name, share in shares.items()))
    pictures = {}
    if study.model.decodes:
        rows = [(f"asked for {counted.asked}", study.decode(samples[:8]))]
        rows += [(name, study.decode(train.of(place, 8))) for place, name in enumerate(train.concepts)]
        pictures[""] = sheet(rows)
    return write_result(counted.folder, "bias", "\n".join(words), data, pictures)


def value_images(train: Samples, scores: Tensor, n: int) -> dict[str, Tensor]:
    """T*_image of the samples of each concept, (B_c, n), by name."""
    return {
        name: image_sets(train.tokens[mine].long(), scores[mine], n)
        for place, name in enumerate(train.concepts)
        for mine in [train.labels == place]
    }


def value_sets(images: Mapping[str, Tensor], n: int, k: int, codes: int, way: str) -> list[TokenSet]:
    """T*_concept of each concept, chosen among its rivals as `rival_sets` says."""
    chosen = rival_sets(list(images.values()), codes, k, way)
    return [
        TokenSet(name, tuple(ids.tolist()), tuple(counts.tolist()), len(images[name]), n)
        for name, (ids, counts) in zip(images, chosen, strict=True)
    ]


def judged_shares(study: Study, tokens: Tensor, judge: Judge) -> dict[str, float]:
    """In which share of samples (N, h, w) an independent classifier sees each concept."""
    concepts = study.extractor.card.concepts
    seen = torch.cat([judge(study.decode(part)).argmax(1) for part in torch.split(tokens, 64)])
    counts = torch.bincount(seen, minlength=len(concepts)).double() / len(tokens)
    return dict(zip(concepts, counts.tolist(), strict=True))


def _bias_json(bias: Bias) -> dict[str, Any]:
    rows = []
    for pair in bias.pairs:
        row = asdict(pair)
        row["delta"] |= {"paper": pair.delta.paper, "words": pair.delta.words}
        rows.append(row | {"excess": pair.excess, "found": pair.found, "text": pair.text()})
    return {"pairs": _finite(rows), "permutations": bias.permutations, "balanced": bias.balanced}


def _finite(value: Any) -> Any:
    """JSON has no infinity: what is not known is null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and value in (float("inf"), float("-inf")) else value


def draw(
    model: VQModel,
    condition: Condition,
    n: int,
    *,
    seed: int,
    note: Note = lambda text: None,
    chunk: int = 64,
    place: Path | None = None,
) -> Tensor:
    """Token grids (n, h, w) on the CPU, a chunk at a time; kept in a folder, if one is named, and read from there."""
    kept = Drawn(place, model, condition=condition.text(), samples=n, seed=seed, chunk=chunk)
    parts = []
    for index, start in enumerate(range(0, n, chunk)):
        count, own = min(chunk, n - start), draw_seed(seed, start)
        parts.append(kept.chunk(index, lambda: model.generate(condition, count, seed=own).cpu()))  # noqa: B023
        note(f"samples for {condition.text()!r}: {min(start + chunk, n)} of {n}")
    return torch.cat(parts)
