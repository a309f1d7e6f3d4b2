"""GIG: any trained image network taken apart into concepts, and how they cause each other, layer by layer.

Nothing here imports torch by itself, so that the command line may ask for help.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from conceptlens.core.progress import note

if TYPE_CHECKING:
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
    image_size: int | None = None,
    n: int | None = None,
    per_image: int = 1,
    rule: Literal["srd", "gradient"] = "srd",
    dictionary: Literal["clusters", "learned", "autoencoder"] = "clusters",
    k: int | None = None,
    sparsity: float = 0.05,
    output: Sequence[str] = (),
    image: str | None = None,
    examples: int = 8,
    graphs: Sequence[Literal["image", "data"]] = ("image", "data"),
    path: Literal["shifted", "printed"] = "shifted",
    target: Literal["probability", "logit"] | None = None,
    validate_on: int = 4,
    noise: float = 0.0,
    attack: str | None = None,
    seed: int = 0,
    quiet: bool = True,
    **settings: Any,
) -> "Decomposed":
    """Take a trained image model apart into concepts, and draw how they make each other, layer by layer.

    Called again with the same settings, it goes on where it was stopped.

    Args:
        model: A timm name, your own function (`path/to/file.py:build`, which is run), the folder of a conceptlens run,
            or in Python any `nn.Module`.
        images: A folder of images; in Python also arrays, PIL images or a torch `Dataset`.
        data: A recipe, or the name of built-in data, instead of a folder.
        layers: Name of a module, from the input up; four of the network's blocks by default.
        out: The run folder.
        overwrite: Replace a run that is in the way.
        weights: Of a timm model: a .safetensors file, or `fresh` for random ones; published ones by default.
        classes: A text file with the name of a class a line, in the order of the outputs.
        image_size: Side in pixels; the model's own by default.
        n: Images at most, evenly chosen.
        per_image: Vectors sampled of each image and layer.
        rule: What they are sampled by: sharing ratios, or gradient × input.
        dictionary: Where concept vectors come from.
        k: Concepts of each layer; min(8 channels, 8192, samples / 6) by default.
        sparsity: Of the lasso, 0 to 1: the larger, the fewer concepts.
        output: A class or named concept of the main graph; the two most frequent by default.
        image: The image of the image graph, by its name below the folder.
        examples: Images over which contributions to an output are means.
        graphs: Further graphs besides the main one.
        path: Of the integral (see docs/decompose.md).
        target: What a contribution to a class is measured in.
        validate_on: Images for insertion and deletion of concepts; 0 for none.
        noise: Also the image with noise of this σ, of 255.
        attack: Also the image after an attack that aims at this class.
        seed: Of everything drawn.
        quiet: Show no progress.
        settings: Further ones, see `conceptlens.gig.settings.Settings`.
    """
    from conceptlens.gig.run import decompose_run, make_settings

    held = not isinstance(images, str | Path | None)
    module = model if not isinstance(model, str | Path) else None
    if module is not None and hasattr(module, "path") and hasattr(module, "pipeline"):  # a trained model
        model, module = module.path, None
    chosen = make_settings(
        model=str(model) if module is None else f"{type(module).__name__} in memory",
        images="memory" if held else None if images is None else str(images),
        data=data,
        layers=list(layers) or None,
        weights=weights,
        classes=str(classes) if isinstance(classes, str | Path) else None,
        image_size=image_size,
        n=n,
        per_image=per_image,
        rule=rule,
        dictionary=dictionary,
        k=k,
        sparsity=sparsity,
        outputs=list(output) or None,
        image=image,
        examples=examples,
        graphs=tuple(graphs),
        path=path,
        target=target,
        validate_on=validate_on,
        noise=noise,
        attack=attack,
        seed=seed,
        **settings,
    )
    return decompose_run(
        chosen,
        out,
        overwrite=overwrite,
        note=note(quiet),
        trusted=True,
        module=module,
        images=images if held else None,
        classes=None if classes is None or isinstance(classes, str | Path) else list(classes),
    )
