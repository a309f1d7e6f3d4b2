"""CORTEX: which tokens of a VQ model's codebook express a concept, and what changes with them (Yang et al., 2025).

This module does not import torch until a function is called, so that the command line shows its help at once.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

from conceptlens.core.documents import TextResult
from conceptlens.core.engines import EngineName
from conceptlens.core.engines.workers import Workers
from conceptlens.core.errors import UserError
from conceptlens.core.progress import note
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.cortex.generators.settings import AS_USUAL, NOTHING_TOLD, CheckpointOptions, Sampling

if TYPE_CHECKING:
    from conceptlens.cortex.generators.contract import VQModel
    from conceptlens.cortex.results import Result
    from conceptlens.cortex.study import Study

SEARCH = SearchSettings()
MOST_CLASSES = 12  # that are drawn where none is named
Studies = Union[str, Path, "Study", Sequence[Union[str, Path, "Study"]]]
Variant = Literal["paper", "released", "released-mean", "logit"]


Judged = Sequence[str] | Mapping[str, Callable[[Any], Any]]


def _judges(judge: Judged) -> Judged:
    if isinstance(judge, str):
        return [judge]
    return judge if isinstance(judge, Mapping) else list(judge)


def _study(study: "str | Path | Study") -> "Study":
    from conceptlens.cortex.study import Study, open_study

    return study if isinstance(study, Study) else open_study(study)


def open(
    model: "str | Path | VQModel",
    *,
    image_size: int | None = None,
    checkpoint: CheckpointOptions = NOTHING_TOLD,
    sampling: Sampling = AS_USUAL,
) -> "VQModel":
    """Open a VQ model; nothing in its files is run.

    Args:
        model: `builtin/cells`, a model folder, a run with a codebook, a checkpoint, `file.py:function` (code that
            is run), or an object that fulfils `VQModel`.
        image_size: Side in pixels of a checkpoint's images, where no configuration says it.
        checkpoint: What a checkpoint does not say of itself.
        sampling: How tokens are drawn.

    >>> import conceptlens as cl
    >>> type(cl.cortex.open("builtin/cells")).__name__
    'SmallGenerator'
    """
    from conceptlens.cortex.generators.open import open_model

    return open_model(model, image_size=image_size, checkpoint=checkpoint, sampling=sampling)


def load(study: str | Path, *, model: "VQModel | None" = None) -> "Study":
    """Open a study that `extract` made.

    Args:
        study: Its folder.
        model: The model, where it was an object.

    >>> import conceptlens as cl
    >>> study = cl.cortex.load("runs/cells")  # doctest: +SKIP
    """
    from conceptlens.cortex.study import open_study

    return open_study(study, model=model)


def sample(
    model: "str | Path | VQModel",
    *,
    condition: Sequence[str] = (),
    n: int = 8,
    image_size: int | None = None,
    checkpoint: CheckpointOptions = NOTHING_TOLD,
    sampling: Sampling = AS_USUAL,
    seed: int = 0,
    out: str | Path = "samples.png",
    quiet: bool = True,
) -> TextResult:
    """Draw images from a VQ generator for conditions.

    Args:
        model: `builtin/cells`, a model folder, a checkpoint, or `file.py:function` (run as code).
        condition: A condition, as `Basophil`, `cell size=big` or `neutral`; the first classes by default.
        n: Samples of each condition.
        image_size: Side in pixels of a checkpoint's images, where no configuration says it.
        checkpoint: What a checkpoint does not say of itself.
        sampling: How tokens are drawn.
        seed: Random seed.
        out: The picture; the tokens go to a .json file beside it.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.cortex.sample("builtin/cells", condition=["Basophil"], out="samples.png")  # doctest: +SKIP
    """
    from conceptlens.core.devices import best_device
    from conceptlens.cortex.demo import sample_sheet
    from conceptlens.cortex.generators.condition import Condition, parse_condition
    from conceptlens.cortex.generators.open import open_model

    opened = open_model(model, image_size=image_size, checkpoint=checkpoint, sampling=sampling).to(best_device())
    conditions = [parse_condition(words, opened.classes, opened.attributes) for words in condition]
    conditions = conditions or [Condition(), *map(Condition, opened.classes[:MOST_CLASSES])]
    return TextResult(sample_sheet(opened, conditions, n, Path(out), seed=seed, note=note(quiet)))


def extract(
    model: "str | Path | VQModel",
    *,
    out: str | Path,
    concepts: Sequence[str] = (),
    data: str | None = None,
    data_concepts: str | None = None,
    by: str | None = None,
    network: Literal["CE", "RE", "TE"] = "CE",
    samples_per_concept: int = 1000,
    epochs: int = 80,
    batch_size: int = 256,
    filters: int | None = None,
    hidden: int | None = None,
    image_size: int | None = None,
    checkpoint: CheckpointOptions = NOTHING_TOLD,
    sampling: Sampling = AS_USUAL,
    seed: int = 0,
    overwrite: bool = False,
    jobs: int = 1,
    engine: EngineName = "local",
    engine_option: Sequence[str] = (),
    quiet: bool = True,
) -> "Study":
    """Train an extractor that recognizes concepts in a VQ model's tokens.

    Samples are kept as they are drawn: the same command goes on with a study that was stopped.

    Args:
        model: `builtin/cells`, a model folder, a run with a codebook, a checkpoint, or `file.py:function`, run as code.
        out: The folder of the study.
        concepts: A concept to recognize, as `Basophil` or `cell size=big`; all classes by default.
        data: Images to encode, for models that do not generate: a folder, a table or a name.
        data_concepts: The concept file of these images.
        by: A concept group of these images whose values are the concepts, instead of their classes.
        network: Architecture of the extractor: convolutions, residual blocks or a transformer.
        samples_per_concept: Samples of each concept.
        epochs: Passes over the training samples.
        batch_size: Samples per step.
        filters: Filters of CE and RE; twice the codes' width by default.
        hidden: Hidden units of the last layers.
        image_size: Side in pixels of a checkpoint's images, where no configuration says it.
        checkpoint: What a checkpoint does not say of itself.
        sampling: How tokens are drawn.
        seed: Random seed.
        overwrite: Replace an existing study.
        jobs: Processes that share the drawing, or the encoding, of samples.
        engine: What starts these processes: this machine, Ray, or SLURM (see docs/scale.md).
        engine_option: A setting of the engine, as `num_gpus=1` of a Ray task or `slurm_partition=gpu`.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> study = cl.cortex.extract("builtin/cells", samples_per_concept=1000, out="runs/cells")  # doctest: +SKIP
    """
    from conceptlens.cortex.extractors.training import ExtractorTraining
    from conceptlens.cortex.study import new_study

    options = {name: value for name, value in (("filters", filters), ("hidden", hidden)) if value is not None}
    if network == "TE" and "filters" in options:
        raise UserError("--filters: TE has none; its width is --hidden.")
    return new_study(
        model,
        out,
        concepts=list(concepts) or None,
        data=data,
        data_concepts=data_concepts,
        by=by,
        network=network,
        per_concept=samples_per_concept,
        image_size=image_size,
        checkpoint=checkpoint,
        sampling=sampling,
        training=ExtractorTraining(epochs=epochs, batch=batch_size),
        seed=seed,
        overwrite=overwrite,
        options=options,
        workers=Workers(jobs, engine, tuple(engine_option)),
        note=note(quiet),
    )


def tokens(
    study: "str | Path | Study",
    *,
    tokens_per_image: int = 20,
    tokens_per_concept: int = 100,
    variant: Variant = "paper",
    noise_samples: int = 20,
    noise_scale: float = 0.2,
    samples_per_concept: int = 200,
    show: int = 4,
    seed: int = 0,
    out: str | Path | None = None,
) -> "Result":
    """Rank the tokens that express each concept of a study.

    Args:
        study: The folder that `codebook extract` made, or the study.
        tokens_per_image: n, the most important tokens of each image.
        tokens_per_concept: k, the most frequent of these over the images of a concept.
        variant: Token importance as in the paper, or as in the released code.
        noise_samples: Noisy copies for SmoothGrad.
        noise_scale: Noise of SmoothGrad, as a share of the embedding's range.
        samples_per_concept: Training samples of each concept.
        show: Test samples of each concept that are written for the page.
        seed: Random seed.
        out: Folder for the files; `codebook/` in the study by default.

    >>> import conceptlens as cl
    >>> print(cl.cortex.tokens("runs/cells").text())  # doctest: +SKIP
    """
    from conceptlens.cortex.results import tokens_result

    return tokens_result(
        _study(study),
        n=tokens_per_image,
        k=tokens_per_concept,
        variant=variant,
        samples=noise_samples,
        alpha=noise_scale,
        limit=samples_per_concept,
        show=show,
        seed=seed,
        out=out,
    )


def search(
    study: "str | Path | Study",
    concept: str,
    *,
    region: str = "all",
    sample: int | None = None,
    starts: int = 4,
    settings: SearchSettings = SEARCH,
    seed: int = 0,
    out: str | Path | None = None,
) -> "Result":
    """Search the whole codebook for tokens that raise a concept's probability.

    Args:
        study: The folder that `codebook extract` made, or the study.
        concept: One of its concepts.
        region: `all`, `center 4x4`, or rows and columns as `7:11,3:8`.
        sample: Start within this sample of the test split; from nothing by default.
        starts: Number of searches from different starting points.
        settings: Settings of the search.
        seed: Random seed.
        out: Folder for the files; `codebook/` in the study by default.

    >>> import conceptlens as cl
    >>> cl.cortex.search("runs/cells", concept="Basophil")  # doctest: +SKIP
    """
    from conceptlens.cortex.results import search_result

    return search_result(
        _study(study), concept, region=region, sample=sample, images=starts, settings=settings, seed=seed, out=out
    )


def edit(
    study: "str | Path | Study",
    image: str | Path | None = None,
    *,
    to: str,
    region: str,
    sample: int | None = None,
    method: Literal["tokens", "embeddings"] = "tokens",
    judge: Judged = (),
    settings: SearchSettings = SEARCH,
    seed: int = 0,
    out: str | Path | None = None,
) -> "Result":
    """Change a region of an image towards a concept.

    Args:
        study: The folder that `codebook extract` made, or the study.
        image: An image file; or name a sample.
        to: The target concept.
        region: `center 4x4`, or rows and columns as `7:11,3:8`.
        sample: A sample of the study's test split instead of an image.
        method: Select tokens, or the baseline: change embeddings.
        judge: A run folder whose model judges the result, or `timm/NAME`; in Python also functions of images, by name.
        settings: Settings of the search.
        seed: Random seed.
        out: Folder for the files; `codebook/` in the study by default.

    >>> import conceptlens as cl
    >>> cl.cortex.edit("runs/cells", sample=0, to="Eosinophil")  # doctest: +SKIP
    """
    from conceptlens.cortex.results import edit_result

    return edit_result(
        _study(study),
        to,
        region,
        image=image,
        sample=sample,
        method=method,
        settings=settings,
        judges=_judges(judge),
        seed=seed,
        out=out,
    )


def measure_bias(
    study: Studies,
    *,
    tokens_per_image: Sequence[int] = (5, 10, 20),
    tokens_per_concept: int = 10,
    sets: Literal["frequency", "lift"] = "frequency",
    neutral: int = 2000,
    condition: str = "neutral",
    unbiased: "str | Path | VQModel | None" = None,
    permutations: int = 200,
    variant: Variant = "paper",
    judge: Judged = (),
    samples_per_concept: int = 1000,
    seed: int = 0,
    out: str | Path | None = None,
    quiet: bool = True,
) -> "list[Result]":
    """Measure which value of an attribute a generator prefers when none is asked for.

    Args:
        study: Studies whose concepts are values of one attribute each; p-values are corrected over all of them.
        tokens_per_image: n, the most important tokens of each image; one table for each number.
        tokens_per_concept: k, tokens of each set.
        sets: How tokens are chosen: by frequency, as in the paper, or by lift.
        neutral: Number of samples for which no value is asked.
        condition: The condition of these samples.
        unbiased: A model without the bias, with the same codebook.
        permutations: Permutations of the attribute's values.
        variant: Token importance as in the paper, or as in the released code.
        judge: A run folder whose model classifies the samples, or `timm/NAME`; in Python also functions of images,
            by name.
        samples_per_concept: Training samples of each concept.
        seed: Random seed.
        out: Folder for the files of a single study.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.cortex.measure_bias("runs/cells")  # doctest: +SKIP
    """
    from conceptlens.cortex.bias.study import bias_results

    several = study if isinstance(study, Sequence) and not isinstance(study, str) else [study]
    studies = [_study(entry) for entry in several]
    if out is not None and len(studies) > 1:
        raise UserError("--out is for one study. With several studies, the files of each go into its own folder.")
    return bias_results(
        studies,
        n=tokens_per_image,
        k=tokens_per_concept,
        sets=sets,
        neutral=neutral,
        condition=condition,
        unbiased=unbiased,
        limit=samples_per_concept,
        permutations=permutations,
        variant=variant,
        judges=_judges(judge),
        seed=seed,
        out=[out] if out else None,
        note=note(quiet),
    )


def mask(
    study: "str | Path | Study",
    *,
    judge: Judged,
    counts: Sequence[int] = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50),
    tokens_per_image: int = 20,
    tokens_per_concept: int = 100,
    variant: Variant = "paper",
    fill: Literal["black", "mean", "blur"] = "black",
    hide: Literal["positions", "ids"] = "positions",
    samples_per_concept: int = 50,
    training_samples_per_concept: int = 200,
    seed: int = 0,
    out: str | Path | None = None,
) -> "Result":
    """Hide important tokens and measure how the predictions of independent models change.

    Args:
        study: The folder that `codebook extract` made, or the study.
        judge: A run folder whose model judges, or `timm/NAME`, with weights of a file as `timm/NAME=FILE`; in Python
            also functions of images, by name.
        counts: Number of tokens that are hidden.
        tokens_per_image: n, the most important tokens of each image.
        tokens_per_concept: k, tokens of a concept's set.
        variant: Token importance as in the paper, or as in the released code.
        fill: What replaces the hidden tokens' pixels.
        hide: Hide the chosen positions, or all positions that have their token ids.
        samples_per_concept: Test samples of each concept, whose tokens are hidden.
        training_samples_per_concept: Training samples of each concept for its token set; the paper has 1,000.
        seed: Random seed.
        out: Folder for the files; `codebook/` in the study by default.

    >>> import conceptlens as cl
    >>> cl.cortex.mask("runs/cells", judge=["runs/judge"])  # doctest: +SKIP
    """
    from conceptlens.cortex.results import mask_result

    return mask_result(
        _study(study),
        _judges(judge),
        counts=counts,
        n=tokens_per_image,
        k=tokens_per_concept,
        variant=variant,
        fill=fill,
        hide=hide,
        limit=samples_per_concept,
        training_limit=training_samples_per_concept,
        seed=seed,
        out=out,
    )


def pairs(
    study: "str | Path | Study",
    *,
    judge: Judged,
    pair: Sequence[str] = (),
    region: str = "center 4x4",
    n: int = 50,
    settings: SearchSettings = SEARCH,
    seed: int = 0,
    out: str | Path | None = None,
) -> "Result":
    """Edit images of one concept into another one, and let independent models judge the change.

    Args:
        study: The folder that `codebook extract` made, or the study.
        judge: A run folder whose model judges, or `timm/NAME`, with weights of a file as `timm/NAME=FILE`; in Python
            also functions of images, by name.
        pair: Two concepts, as `Basophil; Monocyte`; neighbors in the list of concepts by default.
        region: `center 4x4`, or rows and columns as `7:11,3:8`.
        n: Images of each concept.
        settings: Settings of the search.
        seed: Random seed.
        out: Folder for the files; `codebook/` in the study by default.

    >>> import conceptlens as cl
    >>> cl.cortex.pairs("runs/cells", pair=["Basophil; Monocyte"])  # doctest: +SKIP
    """
    from conceptlens.cortex.results import pairs_result

    chosen: list[tuple[str, str]] = []
    for text in pair:
        words = [word.strip() for word in text.split(";") if word.strip()]
        if len(words) != 2:
            raise UserError(f"--pair {text!r}: expected two concepts, as 'Basophil; Monocyte'.")
        chosen.append((words[0], words[1]))
    return pairs_result(
        _study(study), chosen, _judges(judge), region=region, images=n, settings=settings, seed=seed, out=out
    )


def run_demo(
    *,
    out: str | Path = "runs/codebook-demo",
    model: str = "builtin/cells",
    samples_per_concept: int = 40,
    attribute: str | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> TextResult:
    """Explain the built-in generator in one command: samples, tokens, search, edit, bias.

    Args:
        out: Folder for the studies.
        model: A model that generates.
        samples_per_concept: Samples of each concept.
        attribute: The attribute whose values are compared; the model's first by default.
        overwrite: Replace an existing demo.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.cortex.run_demo()  # doctest: +SKIP
    """
    from conceptlens.cortex.demo import demo

    words = demo(
        out, model_name=model, per_concept=samples_per_concept, attribute=attribute, again=overwrite, note=note(quiet)
    )
    return TextResult(words)
