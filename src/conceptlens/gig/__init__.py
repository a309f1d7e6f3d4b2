"""GIG: a trained image network decomposed into concepts, and how they contribute to each other, layer by layer.

This module does not import torch until a function is called, so that the command line shows its help at once.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from conceptlens.core.engines import EngineName
from conceptlens.core.errors import UserError
from conceptlens.core.progress import note

if TYPE_CHECKING:
    from torch import nn

    from conceptlens.gig.names import Named
    from conceptlens.gig.run import Decomposed


def decompose(
    model: Any,
    images: Any = None,
    *,
    data: str | None = None,
    layers: Sequence[str] = (),
    out: str | Path = "runs/decompose",
    overwrite: bool = False,
    weights: str | None = None,
    classes: str | Path | Sequence[str] | None = None,
    prompt: str | None = None,
    image_size: int | None = None,
    normalize: str | None = None,
    n: int | None = None,
    per_image: int = 1,
    rule: Literal["srd", "gradient"] = "srd",
    dictionary: Literal["clusters", "learned", "autoencoder"] = "clusters",
    k: int | None = None,
    sparsity: float = 0.05,
    output: Sequence[str] = (),
    image: str | None = None,
    examples: int = 8,
    graphs: Sequence[Literal["image", "data", "none"]] = ("image", "data"),
    path: Literal["shifted", "printed"] = "shifted",
    target: Literal["probability", "logit"] | None = None,
    validate_on: int = 4,
    noise: float = 0.0,
    attack: str | None = None,
    batch_size: int = 8,
    workers: int = 2,
    processes: int = 1,
    engine: EngineName = "local",
    engine_option: Sequence[str] = (),
    seed: int = 0,
    quiet: bool = True,
    **settings: Any,
) -> "Decomposed":
    """Decompose a trained image model into concepts, and draw how they contribute to each other, layer by layer.

    Called again with the same settings, it continues where it was stopped.

    Args:
        model: `timm/…` (or a timm name alone), `torchvision/NAME`, `transformers/…`, a CLIP whose outputs are texts
            (`open_clip/…`, `builtin/vit`), your own function (`path/to/file.py:build`, which is run), or the folder of
            a conceptlens run; in Python also any `nn.Module` or a `TrainedModel`.
        images: A folder of images; in Python also arrays, PIL images or a torch `Dataset`.
        data: A recipe, or the name of built-in data, instead of a folder.
        layers: Name of a module, from the input up; four of the network's blocks by default.
        out: The run folder.
        overwrite: Replace an existing run.
        weights: A .safetensors file, or `fresh` for random weights; published ones by default.
        classes: A text file with the name of a class a line, in the order of the outputs; in Python also a list.
        prompt: Of a CLIP: the text of a class, with {} for its name; `a photo of a {}` by default.
        image_size: Side in pixels; the model's own by default.
        normalize: `imagenet`, `clip`, `half`, `none`, or six numbers with commas (three means, three deviations); what
            the model's configuration says by default, and none where it has none.
        n: Maximum number of images, evenly chosen.
        per_image: Vectors sampled from each image and layer.
        rule: The weights of this sampling: sharing ratios, or gradient × input.
        dictionary: Where concept vectors come from.
        k: Concepts of each layer; min(8 channels, 8192, samples / 6) by default.
        sparsity: Sparsity of the lasso, 0 to 1: the larger, the fewer concepts.
        output: A class or named concept of the main graph; the two most frequent by default.
        image: The image of the image graph, by its name below the folder.
        examples: Images over which contributions to an output are averaged.
        graphs: Further graphs besides the main one.
        path: Path of the integral (see docs/decompose.md).
        target: Whether contributions to a class are measured in its probability or its logit.
        validate_on: Images for insertion and deletion of concepts, which no concept is learned from; 0 for none.
        noise: Also draw the graph of the image with noise of this σ, of 255.
        attack: Also draw the graph of the image after an attack towards this class.
        batch_size: Images that pass the model at once.
        workers: Threads that read images ahead; 0 for none.
        processes: Processes that share images and layers, each on a GPU of its own where there are several.
        engine: What starts these processes: this machine, Ray, or SLURM (see docs/scale.md).
        engine_option: A setting of the engine, as `num_gpus=1` of a Ray task or `slurm_partition=gpu`.
        seed: Random seed.
        quiet: Show no progress.
        settings: Further settings, see `conceptlens.gig.settings.Settings`.

    >>> import conceptlens as cl
    >>> cl.gig.decompose("resnet50", "photos", layers=["layer2.3", "layer4.2"], out="runs/r50")  # doctest: +SKIP
    """
    from conceptlens.gig.load_model import restored
    from conceptlens.gig.run import IN_MEMORY, decompose_run, make_settings
    from conceptlens.runs.opened import OpenedRun

    in_memory = not isinstance(images, str | Path | None)
    if isinstance(model, OpenedRun):
        model = model.path
    module = _module(model) if not isinstance(model, str | Path) else None
    if isinstance(classes, Sequence) and not isinstance(classes, str) and len(classes) == 1:
        classes = classes[0]  # from the command line; one class alone would be nothing to decide
    chosen = make_settings(
        model=str(model) if module is None else f"{type(module).__name__}{IN_MEMORY}",
        images=f"images{IN_MEMORY}" if in_memory else None if images is None else str(images),
        data=data,
        layers=list(layers) or None,
        weights=weights,
        classes=str(classes) if isinstance(classes, str | Path) else list(classes) if classes else None,
        prompt=prompt,
        image_size=image_size,
        normalize=normalize,
        n=n,
        per_image=per_image,
        rule=rule,
        dictionary=dictionary,
        k=k,
        sparsity=sparsity,
        outputs=list(output) or None,
        image=image,
        examples=examples,
        graphs=tuple(name for name in graphs if name != "none"),
        path=path,
        target=target,
        validate_on=validate_on,
        noise=noise,
        attack=attack,
        seed=seed,
        **settings,
    )
    with restored(module):
        return decompose_run(
            chosen,
            out,
            overwrite=overwrite,
            note=note(quiet),
            trusted=True,
            module=module,
            images=images if in_memory else None,
            batch_size=batch_size,
            workers=workers,
            processes=processes,
            engine=engine,
            engine_option=engine_option,
        )


def name_concepts(
    run: str | Path,
    names: str | Path | Mapping[str, str] | None = None,
    *,
    texts: str | Path | Sequence[str] | None = None,
    encoder: str = "builtin/vit",
    quiet: bool = True,
) -> "Named":
    """Name the concepts of a decomposition by hand, or by the texts nearest to their pictures.

    Its graphs are renamed at once; its pages are drawn again with `conceptlens resume RUN`.

    Args:
        run: The run folder.
        names: A text file with LAYER/NUMBER,NAME a line; in Python also a mapping.
        texts: A text file with a text a line, from which each concept gets the nearest; in Python also a list.
        encoder: Compares pictures with texts: `builtin/vit` or an `open_clip/…` encoder.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.gig.name_concepts("runs/r50", texts="words.txt")  # doctest: +SKIP
    """
    from conceptlens.gig.models.loaded import class_names
    from conceptlens.gig.names import Named, names_by_texts, names_of_file, write_names
    from conceptlens.runs.folder import RunFolder

    if (names is None) == (texts is None):
        raise UserError("Say how to name concepts: a file with names, or --texts FILE, but not both.")
    path = RunFolder.open(run).path
    if texts is not None:
        note(quiet)(f"comparing pictures with texts by {encoder}")
        listed = class_names(texts if isinstance(texts, str | Path) else list(texts)) or []
        chosen = names_by_texts(path, listed, encoder)
    elif isinstance(names, Mapping):
        chosen = {node: (name, "hand") for node, name in names.items()}
    else:
        chosen = names_of_file(Path(str(names)))
    return Named(path, chosen, write_names(path, chosen))


def _module(model: Any) -> "nn.Module":
    from torch import nn

    if not isinstance(model, nn.Module):
        raise UserError(
            f"model: expected a name, a folder, a torch.nn.Module or a TrainedModel, got {type(model).__name__}."
        )
    return model
