"""`explain/NAME.json`: all that is said and drawn of one image. Pictures are made from it and the image alone."""

import base64
from typing import TYPE_CHECKING, Literal

from PIL import Image
from pydantic import Field, PrivateAttr

from conceptlens.core.documents import Document, Part
from conceptlens.core.errors import UserError
from conceptlens.core.figures import new_figure
from conceptlens.pages.markup import h

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MapKind = Literal["evidence", "attention", "gradcam"]
AnyMap = Literal["evidence", "attention", "gradcam", "index"]


class ClassReading(Part):
    """What the model gives to one class."""

    name: str
    probability: float
    logit: float
    threshold: float | None = None  # of a multi-label task: from where on the class is said


class ConceptReading(Part):
    """What the model reads of one concept, in the order of the bottleneck."""

    name: str
    group: str
    value: str
    text: str
    part: str | None
    score: float  # concept logit
    probability: float
    label: bool | None = None  # what a person said, where it is known
    applies: bool = True  # False: its group stands under a value that does not hold in this image
    seen: bool = True  # False: no training image is labeled with it
    placeless: bool = False  # says that something is not there: it has no map


class LogitDecomposition(Part):
    """How a logit, or the difference of two, is made up: total = base + Σ values + bypass.

    Attributes:
        of: The class.
        minus: The class it is compared with, `mean` for the mean of all classes, None for the logit itself.
        total: The logit, or the difference.
        base: What an image with the reference's scores would have.
        values: (K,) what each concept adds, in the order of `concepts`.
        bypass: What reaches the class besides the concepts; 0 for a method that declares none.
    """

    of: str
    minus: str | None
    total: float
    base: float
    values: list[float]
    bypass: float


class Reason(Part):
    """One question about an image, an exclusive group or one yes/no concept, and how the model answers it."""

    concept: int  # the one that is told, by its place
    question: str  # the group, or the yes/no concept
    answer: str
    words: str  # in a sentence
    probability: float  # of what is told
    weight: float | None  # what the question adds to the account; None where the class is no weighted sum
    compared: bool = False  # told as more or less than in the reference


class Aside(Part):
    """What the class head reads and what is no reason all the same."""

    concept: int  # the only, or the likeliest one
    question: str  # the group, or the value
    why: Literal["does not apply", "in no training image"]
    weight: float | None


class Account(Part):
    """Why a class is said, once: sentences, charts and tables are drawn from it, in its order.

    total = base + Σ weights of the reasons + Σ weights of what is set aside + bypass.

    Attributes:
        of: The class.
        minus: The class it is set against, the second likeliest; None where several classes may hold.
        total: The logit margin between the two, or the logit; None where the class is no weighted sum of concepts.
        base: What an image with the reference's scores would have.
        bypass: What reaches the class besides the concepts.
        reasons: The weightiest first; without weights, the surest first.
        aside: Groups that do not apply, and values that no training image has.
    """

    of: str
    minus: str | None
    total: float | None
    base: float | None
    bypass: float | None
    reasons: list[Reason]
    aside: list[Aside] = Field(default_factory=list)

    @property
    def added(self) -> float:
        """What the reasons add together."""
        return sum(each.weight or 0.0 for each in self.reasons)

    @property
    def base_share(self) -> float | None:
        """The share of the total that the reference has already; below 0 and above 1 if the concepts turn it round."""
        return self.base / self.total if self.total and self.base is not None else None

    @property
    def concept_share(self) -> float:
        """How much the concepts move of all that moves, 0 to 1."""
        others = [self.base or 0.0, self.bypass or 0.0, sum(each.weight or 0.0 for each in self.aside)]
        whole = abs(self.added) + sum(map(abs, others))
        return abs(self.added) / whole if whole else 0.0


class Reference(Part):
    """What contributions are compared with."""

    what: Literal["average image", "zero scores"]
    images: int  # in the average
    split: str | None
    why: str | None = None  # why there is no average image

    @property
    def words(self) -> str:
        """As a sentence names it."""
        split = {"val": "validation ", None: ""}.get(self.split, f"{self.split} ")
        return f"the average {split}image" if self.what == "average image" else "an image with all scores at zero"


class PatchMap(Part):
    """A number for each patch, row by row."""

    grid: tuple[int, int]
    values: list[list[float]]  # (h, w)
    range: tuple[float, float]  # smallest and largest value
    slot: int | None = None  # attention: the slot that the concept reads


class EvidenceMap(PatchMap):
    """What each patch adds to the concept's logit, or takes away: Σ values + unplaced = logit."""

    total: float  # Σ values
    unplaced: float  # what has no place: the bias, and a class token's part
    unplaced_share: float  # |unplaced| / (|total| + |unplaced|)
    logit: float

    @property
    def words(self) -> str:
        """The sum, as it is written under the map."""
        sign, share = "−" if self.unplaced < 0 else "+", f"{self.unplaced_share:.0%}"
        placed, logit = (f"{number:.2f}".replace("-", "−") for number in (self.total, self.logit))
        return f"sum of the map {placed} {sign} {abs(self.unplaced):.2f} (not placed, {share}) = logit {logit}"


class ConceptMaps(Part):
    """The maps of one concept. None: not asked for, or there is none (see `without`, and `placeless`)."""

    concept: str
    placeless: bool = False  # absence has no place
    evidence: EvidenceMap | None = None
    attention: PatchMap | None = None
    gradcam: PatchMap | None = None


class CodeName(Part):
    """A code of the codebook and what its patches are mostly assigned to."""

    code: int
    name: str  # a concept, a group of concepts, or "unnamed"
    level: Literal["concept", "group"] | None
    confidence: float | None  # share of the assignment of this code's patches that goes to that concept or group
    chance: float | None  # the same share of all patches
    sampled: int  # patches of this code in the sample


class LegendEntry(CodeName):
    """A code that one image has."""

    color: str  # "#rrggbb"
    patches: int  # of this image


class IndexMap(Part):
    """The nearest code of each patch (Figure 8 of the IVQ-CBM paper)."""

    grid: tuple[int, int]
    codes: list[list[int]]  # (h, w)
    legend: list[LegendEntry]  # of the codes in this image, most patches first
    sample: int  # images whose co-assignment named the codes; 0: none could be read


class Drawing(Part):
    """How the picture is drawn from the numbers."""

    opacity: float  # at the map's largest value
    color_map: str
    scale: str
    upsampling: str
    side: int  # pixels of one picture
    evidence: str = ""  # how signed maps are drawn


class Explanation(Document):
    """The file."""

    remedy = "Explain it again."

    image: str
    run: str
    weights: str  # hash
    split: str | None = None  # where the image is of the run's own data
    truth: list[str] | None = None
    predicted: list[str]
    about: str  # the class that is explained
    rival: str | None  # the class it is set against
    sentence: str
    classes: list[ClassReading]
    concepts: list[ConceptReading]
    reference: Reference
    account: Account | None = None  # what the sentence tells; None in files of earlier versions
    decompositions: list[LogitDecomposition]  # empty where the class is no weighted sum of concepts
    bypass: str | None  # in words
    maps: list[ConceptMaps]
    index: IndexMap | None
    without: dict[AnyMap, str]  # maps that were asked for and do not exist, and why
    gradcam_at: str | None  # where Grad-CAM was taken
    drawing: Drawing
    picture: str | None  # file beside this one
    unlike_training: bool | None = None  # whether the image is unlike the training images; None: not known
    prediction_set: list[str] | None = None  # classes that cannot be excluded; None: not known
    cautions: list[str] = Field(default_factory=list)  # both in words
    map_captions: dict[str, str] = Field(default_factory=dict)  # by kind: why its maps are to be doubted
    _seen: Image.Image | None = PrivateAttr(default=None)

    @property
    def seen(self) -> Image.Image | None:
        """The image as people see it; not in the file, so that one that was read back has none."""
        return self._seen

    @seen.setter
    def seen(self, picture: Image.Image | None) -> None:
        self._seen = picture

    def panel(self, picture: Image.Image | None = None) -> Image.Image:
        """The image, its codes and the maps of its concepts, drawn.

        Args:
            picture: The image; only an explanation that was read from a file needs it.
        """
        from conceptlens.explanations.pictures.panel import panel

        picture = picture or self.seen
        if picture is None:
            raise UserError(f"{self.image}: a file holds no pixels; give the picture to draw the maps over.")
        return panel(self, picture)

    def text(self) -> str:
        return f"{self.image}: {self.sentence}"

    def plot(self, picture: Image.Image | None = None) -> "Figure":
        """The panel as a figure."""
        page = self.panel(picture)
        figure = new_figure(page.width / 100, page.height / 100, dpi=100)
        figure.set_layout_engine("none")
        axis = figure.add_axes((0, 0, 1, 1))
        axis.imshow(page)
        axis.set_axis_off()
        return figure

    def _repr_html_(self) -> str:
        from conceptlens.explanations.pictures.sheet import png

        if self.seen is None:
            return str(h("p", f"{self.image}: {self.sentence}"))
        data = base64.b64encode(png(self.panel())).decode("ascii")
        return str(h("img", src=f"data:image/png;base64,{data}", alt=f"{self.image}: {self.sentence}"))

    def decomposition(self, minus: str | None) -> LogitDecomposition | None:
        """That of the explained class against `minus`."""
        return next((each for each in self.decompositions if each.of == self.about and each.minus == minus), None)

    def concept(self, name: str) -> ConceptReading:
        return next(each for each in self.concepts if each.name == name)
