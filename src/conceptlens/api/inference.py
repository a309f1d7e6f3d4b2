"""Predictions and explanations of images."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from conceptlens.core.engines import EngineName

if TYPE_CHECKING:
    from conceptlens.evaluation.interventions.what_if import WhatIf
    from conceptlens.explanations.explain_files import Explanations
    from conceptlens.explanations.predict import Predictions
    from conceptlens.explanations.predict_parts import PredictedParts
    from conceptlens.runs.opened import OpenedRun

MapKind = Literal["evidence", "attention", "gradcam", "index"]


def predict(
    run: "str | Path | OpenedRun",
    images: Sequence[str | Path],
    *,
    out: str | Path | None = None,
    jobs: int = 1,
    engine: EngineName = "local",
    engine_option: Sequence[str] = (),
    quiet: bool = True,
) -> "Predictions | PredictedParts":
    """Predict class and concepts of image files, folders or shards.

    Shards, as `train-{000..120}.tar`, `data/*.parquet` or an address, give a folder of Parquet files, one a shard. A
    second call goes on where the first was stopped.

    Args:
        run: The run folder.
        images: Image files, folders or shards.
        out: A .csv or .json file for the predictions; for many images a folder.
        jobs: Number of shards at once, each in its own process.
        engine: What starts these processes: this machine, Ray, or SLURM (see docs/scale.md).
        engine_option: A setting of the engine, as `num_gpus=1` of a Ray task or `slurm_partition=gpu`.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> predictions = cl.predict(run, ["image.png"])
    >>> len(predictions.items), predictions.items[0].image
    (1, 'image.png')
    """
    from conceptlens.explanations.predict import predict_run
    from conceptlens.explanations.predict_parts import predict_parts, wants_parts

    if wants_parts(images, out):
        path = run if isinstance(run, str | Path) else run.path
        return predict_parts(path, images, out, jobs=jobs, engine=engine, engine_option=engine_option, quiet=quiet)
    return predict_run(run, images, out=out)


def explain(
    run: "str | Path | OpenedRun",
    images: Sequence[str | Path] = (),
    *,
    out: str | Path | None = None,
    concepts: Sequence[str] = (),
    maps: Sequence[MapKind] = (),
    sheet: bool = False,
    split: Literal["train", "val", "test"] = "test",
    n: int = 12,
    show: Literal["right", "wrong", "uncertain", "all"] = "all",
    opacity: float = 0.6,
) -> "Explanations":
    """Explain predictions of a run: a sentence, contributions of concepts, maps and pictures.

    Args:
        run: The run folder.
        images: Files and folders; none for images of the run's own data.
        out: Folder for files and pictures; `explain/` in the run folder by default.
        concepts: A concept, a group or `all`, whose maps are drawn; by default those with the largest contributions.
        maps: Kind of map; by default the method's own (evidence, or else attention), gradcam and index.
        sheet: Also draw, for each concept, the maps of all images on one sheet.
        split: Split of the run's own data.
        n: Largest number of images of its own data.
        show: Which of them: the most confident correct or wrong ones, the least confident, or evenly spread ones.
        opacity: Opacity of a map at its largest value, 0 to 1.

    >>> import conceptlens as cl
    >>> explained = cl.explain(run, ["image.png"], out="explained", maps=["evidence"])
    >>> explained.text().startswith("image.png: predicted")
    True
    """
    from conceptlens.explanations.explain_files import explain_run

    return explain_run(
        run,
        images,
        out=out,
        concepts=list(concepts) or None,
        maps=maps,
        sheet=sheet,
        split=split,
        n=n,
        show=show,
        opacity=opacity,
    )


def what_if(
    run: "str | Path | OpenedRun",
    image: str | Path,
    *,
    set: Sequence[str] = (),
    split: Literal["train", "val", "test"] = "test",
) -> "WhatIf":
    """Set some concepts of one image by hand, and compare the class before and after.

    Args:
        run: The run folder.
        image: The name of one of the run's images, or any image file.
        set: A concept and its value, as `granule colour=pink`, `granularity: yes=0.3` or `cell size=mean of Basophil`.
        split: Split of the run's images.

    >>> import conceptlens as cl
    >>> cl.what_if(run, "image.png", set=["body colour=red"]).text()
    '...'
    """
    from conceptlens.evaluation.trust import what_if_run
    from conceptlens.runs.opened import OpenedRun

    return what_if_run(OpenedRun.open(run), image, set, split=split)
