"""The contract of every concept model: tokens in, concepts out, and the class from the concepts alone."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from torch import Tensor, nn

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Encoder, Tokens
from conceptlens.nn.heads.bottleneck import Bottleneck
from conceptlens.nn.regularizers.regularizer import NOTHING, Context, Regularizer

if TYPE_CHECKING:
    from conceptlens.methods.fitted.data import FitData
    from conceptlens.methods.fitted.region_prompts import RegionPrompts
    from conceptlens.nn.grounding.places import PlaceTargets, TrainingImages

Space = Literal["probability", "log-probability", "logit", "cosine"]
Supervision = Literal["text", "class-table", "image-labels", "class-labels"]  # as comparisons know them
IMAGE_VECTOR = "image vector"  # of `Tokens.aux`: the encoder's vector in its text space, (B, D_text), unit length
DRAWS = "draws"  # of `Tokens.aux`: numbers from 0 to 1 of each image, (B, n), the same however a batch is split
PATCH_VECTORS = "patch vectors"  # the same for each patch, (B, L, D_text)
OWN = "own"  # as a name of an encoder: the pipeline's


def in_text_space(vectors: Tensor, width: int) -> Tensor:
    """An encoder's vectors (…, D_text), which must be as wide as those of the texts that they are compared with."""
    if vectors.shape[-1] != width:
        raise UserError(
            f"encoder.text: the texts' vectors have width {width}, the image's {vectors.shape[-1]}: they cannot be "
            "compared. Use `encoder.text: auto`, the text tower that belongs to the encoder."
        )
    return vectors


@dataclass
class ConceptOutput:
    """What a model says of B images."""

    logits: Tensor  # (B, C)
    concept_logits: Tensor  # (B, K): softmax within an exclusive group, sigmoid otherwise; (B, 0): reads no concepts
    bottleneck: Tensor  # (B, K): exactly what `decide` reads
    slots: Tensor | None = None  # (B, S, D)
    attention: Tensor | None = None  # (B, S, L): a slot's weights over the patches, where it has any
    # (B, K, L): what each patch adds to a concept's logit, signed and centered over the values of an exclusive group:
    # Σ_l evidence + unplaced = concept logit. Where it exists, it is the map.
    evidence: Tensor | None = None
    unplaced: Tensor | None = None  # (B, K): the part of that logit that has no place: the bias, and a class token's
    class_evidence: Tensor | None = None  # (B, C, L): what each patch adds to a class logit, where that is a sum
    assignment: Tensor | None = None  # (B, L, S): how each patch is shared among the slots, where patches choose
    layer_weights: Tensor | None = None  # (B, K, layers): a concept's weights over the layers, where it has any
    losses: dict[str, Tensor] = field(default_factory=dict)  # label-free terms, (B,) each: one value per image
    patches: Tensor | None = None  # (B, L, D) as they came from the encoder: what the rank is measured on
    codes: Tensor | None = None  # (B, L): nearest code of each patch, where there is a codebook
    features: Tensor | None = None  # (B, D): the vector that concepts are read from, where a loss looks at it
    auxiliary: Tensor | None = None  # (B, C): further class logits, trained by the class loss; they decide nothing
    auxiliary_weight: float = 1.0  # of that loss, relative to the class loss
    patch_logits: Tensor | None = None  # (B, L', K): what some patches say alone, trained by the concept loss
    patch_shares: Tensor | None = None  # (B, L', K): how much each counts there; they add up to 1 over an image
    patch_loss_weight: float = 1.0  # of that loss, relative to the concept loss
    gate: Tensor | None = None  # (B, L): logits of each patch belonging to the object, where a method has a gate
    centroids: Tensor | None = None  # (B, S, 2): row and column of each slot's center of attention, in patches
    layers: tuple[Tensor, ...] = ()  # (B, L, D) each: the encoder's further layers, where they are handed on
    chance: Tensor | None = None  # (B, n): numbers from 0 to 1 for RandInt, the same however a batch is split
    context: Tensor | None = None  # (B, E): what `decide_within` reads of the image besides: part of a declared bypass


class ConceptModel(nn.Module, ABC):
    """Base of all methods. The constructor takes a `Setup` and keyword options: the recipe's `method` keys."""

    supervision: Supervision = "image-labels"  # what tells it about concepts; options may change it
    uses_text: bool = True  # whether it reads the texts of the concepts
    uses_image_vector: bool = False  # whether it reads `Tokens.aux[IMAGE_VECTOR]`
    uses_patch_vectors: ClassVar[bool] = False  # whether it reads `Tokens.aux[PATCH_VECTORS]`
    needs_layers: ClassVar[bool] = False  # whether it reads `Tokens.layers` and `layer_cls`; its preset asks for them
    reads_concepts: ClassVar[bool] = True  # without, concept scores have no columns, and nothing is measured of them
    space: Space = "logit"  # the space of the bottleneck
    bypass: str | None = None  # what reaches the class besides the concepts, in words; None: nothing does
    has_attention: bool = False
    has_evidence: bool = False  # whether it says what each patch adds to a concept's logit
    fits_images: ClassVar[bool] = True  # whether a stage of the kind `fit` has something to learn from images
    fit_targets: str | None = None  # encoder whose image-text vectors `fit` needs, by name; `own`: the pipeline's
    fit_regions: "RegionPrompts | None" = None  # what marks regions whose image-text vectors `fit` needs
    fit_crops: bool = False  # whether `fit` reads cut-outs of the training images, by their annotation
    fit_crop_images: int = 0  # cut-outs of so many images of each class are enough; 0: of all
    draws: int = 0  # numbers from 0 to 1 that its forward pass needs of each image while it trains: `Tokens.aux[DRAWS]`
    concepts_see_class: ClassVar[bool] = True  # False: concepts are learned from their own labels alone
    randint_on_class_tables: ClassVar[bool] = False  # whether RandInt stays on where labels follow from the class
    bottleneck: Bottleneck  # of methods whose head reads concept logits through one
    head: Any  # a module, bottleneck (B, K) → class logits (B, C), of methods that decide by one
    concept_slot: Tensor  # (K,): which slot each concept reads; a buffer of methods that have slots

    def prepare(self, tokens: Iterable[Tokens], concepts: ConceptSet) -> ConceptSet:
        """Look at tokens of some training images once, before training; may choose concepts. Deterministic.

        A model that returns a smaller set has already shrunk itself to it, as `keep` would.
        """
        return concepts

    def summarize(self, tokens: Tokens) -> Tensor:
        """One vector an image, (B, D): what `fit` gets of every training and validation image."""
        return tokens.patches.mean(1) if tokens.cls is None else tokens.cls

    def fit(self, data: "FitData") -> dict[str, float]:
        """A stage of the kind `fit`: learn from all training images at once, the encoder being frozen.

        Deterministic in `data`. May drop concepts (`data.drop`), and then calls `keep` itself. Returns numbers for the
        history.
        """
        raise UserError(
            f"training.stages: {type(self).__name__} trains by gradients, it has nothing to fit. Leave `kind: fit` out."
        )

    def keep(self, columns: Sequence[int]) -> None:
        """Shrink parameters and buffers to the concepts at these positions; for models that choose concepts."""
        raise UserError(f"{type(self).__name__} does not choose concepts: a bug in the method.")

    @abstractmethod
    def forward(self, tokens: Tokens) -> ConceptOutput:
        """What the model says of B images; `decide` makes the class logits from the bottleneck."""

    def decide(self, bottleneck: Tensor) -> Tensor:
        """Bottleneck (B, K) → class logits (B, C), by `head` unless a method differs: where interventions enter."""
        logits: Tensor = self.head(bottleneck)
        return logits

    def decide_within(self, bottleneck: Tensor, context: Tensor) -> Tensor:
        """The same for images whose `context` (B, E) stays as it is, whatever is done to their concepts."""
        return self.decide(bottleneck)

    def set_head_rate(self, rate: float) -> None:
        """Let the class head learn faster than the rest: where the concepts do not wait for it, it may."""
        if rate <= 0:
            raise UserError(f"method.head_rate: expected a number above 0, found {rate}.")
        for parameter in self.head.parameters():
            parameter.rate = rate  # read by the optimizer

    def through_bottleneck(self, scores: Tensor, **rest: Any) -> ConceptOutput:
        """The output of a method whose head reads its concept logits (B, K) through `bottleneck`."""
        read = self.bottleneck(scores)
        return ConceptOutput(
            logits=self.decide(self.bottleneck.pass_on(read)),
            concept_logits=scores if self.training else self.bottleneck.calibrated(scores),
            bottleneck=read,
            **rest,
        )

    def teach(self, output: ConceptOutput, labels: Tensor) -> ConceptOutput:
        """What the losses see while training, given concept labels (B, K) of 0, 1, UNKNOWN: RandInt, if asked for."""
        bottleneck = getattr(self, "bottleneck", None)
        if self.training and bottleneck is not None and bottleneck.randint:
            told = bottleneck.rehearse(bottleneck.pass_on(output.bottleneck), labels, output.chance)
            context = output.context
            output.logits = self.decide(told) if context is None else self.decide_within(told, context)
        return output

    def see_labels(self, labels: Tensor) -> None:
        """After each training step, with the concept labels of the whole batch (B, K): of all processes and pieces."""

    @property
    def answers(self) -> Tensor | None:
        """(2, K, K): what its head learned to read where a concept is told 0 or 1; see `Bottleneck`. None: nothing."""
        return getattr(self._modules.get("bottleneck"), "answers", None)

    def calibrate(self, concept_logits: Tensor, labels: Tensor) -> dict[str, float]:
        """After each validation, with its concept logits and labels (N, K); returns numbers for the history."""
        bottleneck = getattr(self, "bottleneck", None)
        return {} if bottleneck is None else bottleneck.fit_temperature(concept_logits, labels)

    def teach_classes(self, output: ConceptOutput, labels: Tensor) -> ConceptOutput:
        """The same given class labels, (B,) or (B, C): for losses that compare images of the same class."""
        return output

    def find_places(self, images: "TrainingImages") -> "PlaceTargets | None":
        """Look at all training images once, before training or resuming; targets by place, if it learns from any.

        Deterministic. It may set where parameters begin: a resumed training overwrites them.
        """
        return None

    def teach_places(self, output: ConceptOutput, places: "PlaceTargets") -> ConceptOutput:
        """What the losses see while training, given the targets by place of these images."""
        return output

    def expected_maps(self, grid: tuple[int, int]) -> Tensor | None:
        """The image-free baseline, (K, L): where each concept is expected, whatever the image; None without a prior."""
        return None

    def end_epoch(self, tokens: Tokens) -> dict[str, float]:
        """After each training epoch, with tokens of a fixed sample; returns numbers for the history."""
        return {}


class Pipeline(nn.Module):
    """Image → tokens → (regularizer) → concepts → class."""

    def __init__(self, encoder: Encoder, regularizer: Regularizer, model: ConceptModel) -> None:
        super().__init__()
        self.encoder = encoder
        self.regularizer = regularizer
        self.model = model

    def forward(self, images: Tensor, second: Tensor | None = None, *, draws: Tensor | None = None) -> ConceptOutput:
        """Images of bytes or in [0, 1], (B, 3, H, W), and a second view of them, if the regularizer asks for one.

        While the encoder is cut, what a token store keeps of the images may come in their place. `draws` (B, n) are
        what chance has in store for each image, for a model that asks for them.
        """
        tokens = self.encoder.encode(images)
        if draws is not None and self.model.draws:
            tokens.aux = {**tokens.aux, DRAWS: draws}
        return self.read(tokens, Context(images, None if second is None else self.encoder(second)))

    def read(self, tokens: Tokens, context: Context = NOTHING) -> ConceptOutput:
        """From tokens on: the same path for live and for stored tokens."""
        seen = tokens.patches
        regularized = self.regularizer(tokens, context)
        output: ConceptOutput = self.model(self.with_text_space(regularized.tokens))
        output.losses = {**output.losses, **regularized.losses}
        output.patches, output.codes, output.layers = seen, regularized.codes, tokens.layers
        return output

    def with_text_space(self, tokens: Tokens) -> Tokens:
        """The tokens with the encoder's vectors in its text space, of image or patches, where they are read."""
        if not (self.model.uses_image_vector or self.model.uses_patch_vectors):
            return tokens
        aux = dict(tokens.aux)
        if self.model.uses_image_vector:
            aux[IMAGE_VECTOR] = self.encoder.embed(tokens)
        if self.model.uses_patch_vectors:
            aux[PATCH_VECTORS] = self.encoder.embed_patches(tokens)
        # `replace` would stop a compiler
        return Tokens(tokens.patches, tokens.grid, tokens.cls, tokens.layers, aux, tokens.layer_cls)
