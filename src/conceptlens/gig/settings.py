"""What a decomposition was asked for: `settings.json` of its run folder, with which it can go on."""

from typing import Literal

from pydantic import Field

from conceptlens.core.documents import Document
from conceptlens.gig.dictionaries.concept_vectors import DictionaryKind


class Settings(Document):
    """Everything that makes the run again.

    Attributes:
        model: A timm name, `file.py:function`, a run folder, or the description of an object.
        weights: A .safetensors file, `fresh`, or None for published ones.
        classes: A file with a class a line, or the names themselves.
        prompt: The text of a class of a CLIP, with `{}` in the place of its name.
        image_size: Side in pixels.
        normalize: How images are normalized; None for what the model's configuration says, or not at all.
        images: A folder of images, or the description of an object.
        data: A recipe or the name of built-in data, instead of images.
        n: At most so many images.
        layers: Names of modules, from the input up; None for the blocks that the network repeats, at most four.
        per_image: Vectors sampled of each image and layer.
        rule: What they are sampled by: sharing ratios, or gradient × input.
        dictionary: Where concept vectors come from: the paper's `clusters`, a dictionary that is `learned`, or a sparse
            `autoencoder`; the same lasso codes with each.
        k: Concepts of each layer; None for min(8 C, 8192, samples / 6).
        sparsity: λ as a share of the λ at which a typical vector uses no concept.
        outputs: Classes, or named concepts, of the main graph; None for the two that are most frequent.
        image: The image of the image graph; None for the surest of the first output.
        examples: Images over which the contributions to an output are means.
        graphs: Besides the main one.
        concepts: First concepts of each row and output.
        shared: Further ones that outputs share.
        crops: Samples shown of each concept.
        path: Of the integral; `shifted` or `printed`.
        target: `probability` or `logit`; None for the former where outputs are classes.
        tolerance: Of the completeness error.
        most_steps: Of an integral.
        validate_on: Images for C-Insertion and the rest, which no concept is learned from; 0 for none.
        noise: σ of the noisy image in steps of a byte; 0 for no such graph.
        attack: The output of the targeted attack; None for no such graph.
        seed: Of all that is drawn.
    """

    remedy = "It was edited or damaged; start again with --overwrite."

    model: str
    weights: str | None = None
    classes: str | list[str] | None = None
    prompt: str | None = None
    image_size: int | None = None
    normalize: str | None = None
    images: str | None = None
    data: str | None = None
    n: int | None = Field(default=None, ge=1)
    layers: list[str] | None = None
    per_image: int = Field(default=1, ge=1)
    rule: Literal["srd", "gradient"] = "srd"
    dictionary: DictionaryKind = "clusters"
    k: int | None = Field(default=None, ge=1)
    sparsity: float = Field(default=0.05, gt=0, lt=1)
    outputs: list[str] | None = None
    image: str | None = None
    examples: int = Field(default=8, ge=1)
    graphs: tuple[Literal["image", "data"], ...] = ("image", "data")
    concepts: int = Field(default=5, ge=1)
    shared: int = Field(default=3, ge=0)
    crops: int = Field(default=8, ge=1)
    path: Literal["shifted", "printed"] = "shifted"
    target: Literal["probability", "logit"] | None = None
    tolerance: float = Field(default=0.01, gt=0)
    most_steps: int = Field(default=256, ge=1)
    validate_on: int = Field(default=4, ge=0)
    noise: float = Field(default=0.0, ge=0)
    attack: str | None = None
    seed: int = 0
