"""The drawn data set `shapes`: creatures made of colored parts, with the whole truth about them.

Every concept is drawn uniformly and independently of all others; the class follows from five groups together (see
`species`). Each kind of chance has random numbers of its own, so an option changes what it names and nothing else,
and a large set begins with the images of a small one. Images are drawn when they are read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import dump_yaml
from conceptlens.data.dataset import SPLITS, Annotation, DataSource, Examples, Task
from conceptlens.data.sources.creature import FINE, PALETTE, PARTS, Color, Pose, place, scatter, strokes
from conceptlens.data.sources.species import RULE, ceiling, classify
from conceptlens.recipes.schema import ShapesConfig

HIDDEN = "hidden trait"
GROUNDS: dict[str, Color] = {
    "paper": (232, 229, 222),
    "mist": (188, 195, 204),
    "sand": (212, 198, 170),
    "slate": (98, 106, 118),
}
MARKS: tuple[Color, ...] = (
    (15, 15, 15),
    (255, 255, 255),
    (255, 130, 0),
    (130, 40, 180),
    (0, 200, 210),
    (255, 120, 190),
)  # the shortcut's color for each class
_FRAME: Color = (60, 60, 60)

_FEATURE, _POSE, _FLIP, _FLIPPED_TO, _HIDE, _SHORTCUT, _PIXELS, _CLUTTER, _SCATTER = range(9)  # kinds
#        x, y, scale, turn, stretch, mirrored, light, ground
_LOW = (0, 0, 0.7, -25, 0.94, 0, 0.88, 0)
_HIGH = (1, 1, 1.1, 25, 1.06, 1, 1.04, len(GROUNDS))


class _Attribute(NamedTuple):
    """A label: one of an exclusive group's values by number, or the yes (0) or no (1) of an independent concept."""

    concepts: slice
    size: int


class _Paint(NamedTuple):
    outline: list[float]  # x0, y0, x1, y1, … on the fine canvas
    part: str  # empty: background
    color: Color


class Shapes(DataSource):
    """Creatures drawn on the fly.

    Args:
        config: How many, how large, how noisy.
        concepts: A vocabulary made of groups of `Shapes.concept_set(config)`, which is the default.

    Attributes:
        concepts: The concept set that the labels belong to.
        true_concepts: Labels (N, K) before any is flipped or hidden. Without a wing its color is UNKNOWN even so.
        label_ceiling: The best accuracy that a reader of the reported concept labels can reach; 1 unless some are
            flipped or hidden, or a group that decides the class is missing from `concepts` (a group that is there
            counts as whole, also if it lacks values).
    """

    def __init__(self, config: ShapesConfig, concepts: ConceptSet | None = None) -> None:
        _check(config)
        self.config = config
        self._vocabulary = self.concept_set(config)
        self._attributes = _attributes(self._vocabulary)
        self.name = "shapes"
        self.task: Task = "single"
        self.classes = self._vocabulary.classes
        self.concepts = self._vocabulary if concepts is None else self._own_classes(concepts)
        columns = self._columns()

        features = [
            (self._chance(_FEATURE, at) * attribute.size).astype(np.int8)
            for at, attribute in enumerate(self._attributes)
        ]
        self._features = np.stack(features, axis=1)
        self._pose = _poses(config)
        true = self._vocabulary.mask_hierarchy(self._labels(self._features))
        groups = [group.name for group in self._vocabulary.groups]
        labels = classify(self._vocabulary, [features[groups.index(group)] for group in RULE])
        split = _split(config.n)
        aligned = (self._chance(_SHORTCUT, 0) < config.shortcut) & (split < SPLITS.index("test"))
        random_mark = (self._chance(_SHORTCUT, 1) * len(self.classes)).astype(np.int64)
        self._mark = np.where(aligned, labels, random_mark).astype(np.int8)

        self.true_concepts = _restrict(true[:, columns], self.concepts)
        self.label_ceiling = ceiling(
            self._vocabulary,
            label_noise=config.label_noise,
            unknown=config.unknown,
            named={group.name for group in self.concepts.groups},
        )
        _, _, scale, turn, _, mirrored, _, ground = self._pose.T
        self.examples = Examples(
            ids=tuple(f"shape-{index:06d}" for index in range(config.n)),
            labels=labels,
            concepts=_restrict(self._report(true)[:, columns], self.concepts),
            split=_names(split, SPLITS),
            metadata={
                "size": _names(np.digitize(scale, (0.83, 0.97)), ("small", "medium", "large")),
                "rotation": _names(np.digitize(turn, (-8, 8)), ("left", "upright", "right")),
                "facing": _names(mirrored < 0.5, ("right", "left")),
                "background": _names(ground, tuple(GROUNDS)),
                "shortcut": _names(aligned if config.shortcut else np.full(config.n, 2), ("random", "aligned", "none")),
            },
        )

    @classmethod
    def concept_set(cls, config: ShapesConfig) -> ConceptSet:
        """The ready set `shapes` with so many classes, and with a group of hidden traits if there are to be any."""
        source = dict(ConceptSet.load("shapes").source)
        source["classes"] = source["classes"][: config.classes]
        if config.invisible:
            numbers = [str(number) for number in range(1, config.invisible + 1)]
            source["groups"] = {
                **source["groups"],
                HIDDEN: {
                    "kind": "independent",
                    "prompt": "a creature with hidden trait number {value}",
                    "values": {f"trait {number}": number for number in numbers},
                    "columns": {f"trait {number}": f"hidden_trait_{number}" for number in numbers},
                },
            }
        return ConceptSet.from_yaml(dump_yaml(source), where="concept set shapes", name="shapes")

    def read(self, index: int) -> Image.Image:
        index = range(len(self))[index]
        size = self.config.size
        chance = np.random.default_rng([self.config.seed, _PIXELS, index])
        ground = np.array(list(GROUNDS.values())[int(self._pose[index, -1])]) + chance.integers(-8, 9)
        # The fourth channel holds how far things cover a pixel: there the texture of the ground ends.
        canvas = Image.new("RGBX", (size * FINE, size * FINE), (*ground.tolist(), 0))
        draw = ImageDraw.Draw(canvas)
        for paint in (*self._clutter(index), *self._things(index)):
            draw.polygon(paint.outline, fill=(*paint.color, 255 if paint.part else 0))
        drawn = np.asarray(canvas.reduce(FINE), dtype=np.float32)
        blotches = Image.fromarray(chance.normal(0, 9, (6, 6)).astype(np.float32))
        texture = np.asarray(blotches.resize((size, size), Image.Resampling.BICUBIC))
        pixels = drawn[..., :3] + (texture * (1 - drawn[..., 3] / 255))[..., None]
        if self.config.noise:
            pixels += chance.standard_normal(pixels.shape, dtype=np.float32) * np.float32(255 * self.config.noise)
        return Image.fromarray(np.clip(pixels + 0.5, 0, 255).astype(np.uint8))

    def annotation(self, index: int) -> Annotation:
        """What is visible of each part; a pixel belongs to what is foremost at its center."""
        index = range(len(self))[index]
        side = self.config.size * FINE
        names = (*PARTS, "shortcut")
        canvas = Image.new("L", (side, side), len(names))
        draw = ImageDraw.Draw(canvas)
        for paint in self._things(index):
            draw.polygon(paint.outline, fill=names.index(paint.part))
        front = np.asarray(canvas)[FINE // 2 :: FINE, FINE // 2 :: FINE]
        masks = {name: front == number for number, name in enumerate(names)}
        masks["object"] = front < len(PARTS)
        masks = {name: mask for name, mask in masks.items() if mask.any()}
        return Annotation(
            keypoints={name: _center(mask) for name, mask in masks.items() if name in PARTS},
            masks=masks,
            boxes={name: _box(mask) for name, mask in masks.items()},
            size=(self.config.size, self.config.size),
        )

    @property
    def region_names(self) -> tuple[str, ...]:
        return ("object", *PARTS, *(["shortcut"] if self.config.shortcut else []))

    def _chance(self, kind: int, at: int) -> npt.NDArray[np.float64]:
        """Numbers (N,) from 0 to 1 that depend on the seed, the kind of chance and the attribute alone."""
        return np.random.default_rng([self.config.seed, kind, at]).random(self.config.n)

    def _labels(self, features: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
        """Concept labels (N, K) of features (N, attributes)."""
        labels = np.empty((len(features), len(self._vocabulary)), dtype=np.int8)
        for at, attribute in enumerate(self._attributes):
            labels[:, attribute.concepts] = features[:, at, None] == np.arange(
                attribute.concepts.stop - attribute.concepts.start
            )
        return labels

    def _report(self, true: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
        """Labels (N, K) as an annotator might give them: some wrong, some missing."""
        features = self._features.copy()
        for at, attribute in enumerate(self._attributes):
            wrong = self._chance(_FLIP, at) < self.config.label_noise
            step = 1 + (self._chance(_FLIPPED_TO, at) * (attribute.size - 1)).astype(np.int8)
            features[:, at] = np.where(wrong, (features[:, at] + step) % attribute.size, features[:, at])
        reported = self._labels(features)
        reported[true == UNKNOWN] = UNKNOWN
        for at, attribute in enumerate(self._attributes):
            reported[self._chance(_HIDE, at) < self.config.unknown, attribute.concepts] = UNKNOWN
        return self._vocabulary.mask_hierarchy(reported)

    def _own_classes(self, concepts: ConceptSet) -> ConceptSet:
        """A given concept set, which may have no classes or more of them than are drawn, with those that are."""
        if concepts.classes and not set(self.classes) <= set(concepts.classes):
            raise UserError(
                f"The drawn data set has the classes {list(self.classes)}, but the concept set {concepts.name!r} has "
                f"{list(concepts.classes)}. Leave `classes` out of the concept file or name those."
            )
        source = {key: value for key, value in concepts.source.items() if key != "by_class"}  # labels come per image
        return replace(concepts, classes=self.classes, by_class={}, source={**source, "classes": list(self.classes)})

    def _columns(self) -> list[int]:
        """Where the wanted concepts are in the full vocabulary."""
        try:
            return [self._vocabulary.index(concept.group, concept.value) for concept in self.concepts.concepts]
        except UserError as error:
            raise UserError(
                f"The concept set {self.concepts.name!r} does not fit the drawn data set. {error}"
            ) from None

    def _things(self, index: int) -> Iterator[_Paint]:
        """The creature from back to front, then the mark."""
        look = {
            group.name: (*group.values, "absent")[feature]
            for group, feature in zip(self._vocabulary.groups, self._features[index].tolist(), strict=False)
            if group.name != HIDDEN
        }
        x, y, scale, turn, stretch, mirrored, light, _ = self._pose[index].tolist()
        made = strokes(look, light)
        pose = Pose(x, y, scale, turn, stretch, mirrored < 0.5)
        if self.config.anywhere:
            chance = np.random.default_rng([self.config.seed, _SCATTER, index])
            outlines = scatter(made, pose, self.config.size, chance)
        else:
            outlines = place(made, pose, self.config.size)
        for stroke, outline in zip(made, outlines, strict=True):
            yield _Paint(outline, stroke.part, stroke.color)
        if self.config.shortcut:
            side = self.config.size * FINE
            for inset, color in ((0.01, _FRAME), (0.02, MARKS[self._mark[index]])):
                left, right, top, bottom = side * np.array([inset, 0.11 - inset, 0.89 + inset, 1 - inset])
                yield _Paint([left, top, right, top, right, bottom, left, bottom], "shortcut", color)

    def _clutter(self, index: int) -> Iterator[_Paint]:
        """Blobs in the colors of the creatures."""
        if not self.config.clutter:
            return
        chance = np.random.default_rng([self.config.seed, _CLUTTER, index])
        side = self.config.size * FINE
        colors = list(PALETTE.values())
        for _ in range(self.config.clutter):
            corners = int(chance.integers(3, 9))
            angle = 2 * np.pi * (chance.random() + np.arange(corners) / corners)
            x, y, radius = chance.uniform((0, 0, 0.03), (1, 1, 0.07)) * side
            outline = np.stack([x + radius * np.cos(angle), y + radius * np.sin(angle)], axis=1)
            yield _Paint(outline.ravel().tolist(), "", colors[chance.integers(len(colors))])


def _check(config: ShapesConfig) -> None:
    """Refuse settings that cannot be drawn."""
    if not isinstance(config.anywhere, bool):
        raise UserError(f"data.shapes.anywhere: expected true or false, found {config.anywhere!r}.")
    most = 2**31 - 1
    allowed: dict[str, tuple[float, float]] = {
        "n": (10, most),
        "size": (32, 2048),
        "seed": (0, most),
        "classes": (2, len(MARKS)),
        "noise": (0, 1),
        "label_noise": (0, 1),
        "unknown": (0, 1),
        "invisible": (0, 1000),
        "shortcut": (0, 1),
        "clutter": (0, 1000),
    }
    for name, (low, high) in allowed.items():
        value = getattr(config, name)
        whole = high > 1
        kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
        if not isinstance(value, kinds) or isinstance(value, bool) or not low <= value <= high:
            what = f"a{' whole' * whole} number from {low:,} to {high:,}"
            raise UserError(f"data.shapes.{name}: expected {what}, found {value!r}.")


def _attributes(concepts: ConceptSet) -> list[_Attribute]:
    attributes: list[_Attribute] = []
    for group in concepts.groups:
        if group.kind == "exclusive":
            attributes.append(_Attribute(group.concepts, len(group.values)))
        else:
            attributes += [_Attribute(slice(at, at + 1), 2) for at in range(group.concepts.start, group.concepts.stop)]
    return attributes


def _poses(config: ShapesConfig) -> npt.NDArray[np.float32]:
    chance = np.random.default_rng([config.seed, _POSE]).random((config.n, len(_LOW)), dtype=np.float32)
    low, high = np.array([_LOW, _HIGH], dtype=np.float32)
    return np.asarray(low + (high - low) * chance, dtype=np.float32)


def _split(n: int) -> npt.NDArray[np.int64]:
    """60 % train, 15 % val, 25 % test; multiples of the golden ratio keep to the shares in every run of images."""
    position = np.arange(n) * ((5**0.5 - 1) / 2) % 1
    return np.asarray(np.digitize(position, (0.6, 0.75)), dtype=np.int64)


def _restrict(labels: npt.NDArray[np.int8], concepts: ConceptSet) -> npt.NDArray[np.int8]:
    """Labels (N, K) in a vocabulary that may lack values: an exclusive group without the true one is unknown."""
    for group in concepts.groups:
        if group.kind == "exclusive":
            labels[~(labels[:, group.concepts] == 1).any(axis=1), group.concepts] = UNKNOWN
    return concepts.mask_hierarchy(labels)


def _names(numbers: npt.NDArray[np.generic], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(np.array(names)[numbers.astype(np.int64)].tolist())


def _center(mask: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """The mask's pixel nearest to its centroid, since the centroid of a fork lies outside of it."""
    y, x = np.nonzero(mask)
    nearest = np.argmin((x - x.mean()) ** 2 + (y - y.mean()) ** 2)
    return float(x[nearest]) + 0.5, float(y[nearest]) + 0.5


def _box(mask: npt.NDArray[np.bool_]) -> tuple[float, float, float, float]:
    y, x = np.nonzero(mask)
    return float(x.min()), float(y.min()), float(x.max() + 1), float(y.max() + 1)
