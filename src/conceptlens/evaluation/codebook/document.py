"""`audit/audit.json`: what the audit of a run found. Pictures and page are made from it and the images alone."""

from typing import TYPE_CHECKING, Literal

from pydantic import PrivateAttr

from conceptlens.core.documents import Document, Part, TableRow
from conceptlens.core.errors import UserError
from conceptlens.evaluation.subgroups.failures import Failures
from conceptlens.stats.estimates import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERSION = 1
Kind = Literal["dormant", "duplicate", "background"]


class Match(Part):
    """A code and the concept it is matched with."""

    code: int
    concept: str
    strength: float
    p: float  # that chance finds a match as strong for this code, corrected for all codes
    sure: bool


class Matching(Part):
    """A one-to-one match of codes and concepts."""

    kind: str  # co-assignment, labels or text
    total: float
    chance_total: float | None  # mean over tables where chance rules
    p: float | None  # that chance reaches the total
    matches: list[Match]
    note: str | None = None


class NearPatch(Part):
    """One of the patches nearest to a code."""

    image: str
    row: int
    column: int
    distance: float  # squared


class Code(Part):
    """One code of the codebook."""

    code: int
    patches: int
    share: Estimate  # of all patches
    images: int  # in which it is the nearest of some patch
    classes: dict[str, float]  # share of each class's patches that are its own
    class_dependence: float | None  # share of the variance of its share between images that the class explains
    class_p: float | None  # that chance explains as much
    distance: float | None  # mean squared distance of its patches
    border: float | None  # its share of the outermost places over that of all places
    on_object: float | None  # share of its patches on the object, where regions are known
    nearest_code: int | None
    nearest_code_distance: float | None  # squared, over the median of all pairs
    kinds: list[Kind]
    concepts: dict[str, str]  # by co-assignment, labels, text: the match, where it is sure
    near: list[NearPatch]
    color: str


class Projection(Part):
    """Codes and some patches in two or three dimensions (Figure 9)."""

    method: str
    dimensions: int
    explained: list[float] | None  # of the tokens' variance, by axis; None where axes have no such meaning
    codes: list[list[float]]  # (M, d)
    patches: list[list[float]]  # (n, d)
    patch_codes: list[int]  # (n,)


class Codebook(Part):
    """All codes."""

    kind: Literal["implicit", "explicit"]
    size: int
    use: float
    perplexity: float | None
    explained: float | None  # share of the tokens' variance that nearest codes explain
    even_share: float
    codes: list[Code]
    matchings: list[Matching]
    without: dict[str, str]  # matchings that could not be made, and why
    projections: list[Projection]
    dormant_and_bad: str | None  # whether codes that are seldom used belong to concepts that are read badly


class ConceptFinding(Part):
    """A concept, audited by what the run keeps of it; for every method."""

    concept: str
    text: str
    labeled: int  # images
    holds: float | None  # share of them
    predicted: float  # share of images in which the model predicts it
    auc: float | None
    auc_within_class: float | None
    influence: float | None  # mean absolute effect on the class logits, over that of all concepts
    closest: str | None  # the concept whose scores go with this one's most closely
    closest_correlation: float | None
    slot_mass: float | None  # share of patches that its slot gets, over an even share
    kinds: list[Literal["never predicted", "at chance", "no influence", "duplicate", "empty slot"]]


class TrustFile(Part):
    """What another measurement in the run says."""

    file: str
    says: list[str]


class Audit(Document):
    """The file."""

    remedy = "Audit the run again with `conceptlens audit RUN`."

    version: int = VERSION
    run: str
    method: str
    regularizer: str
    data: str
    split: str
    images: int
    tokens: str  # where they came from
    seconds: float
    codebook: Codebook | None
    no_codebook: str | None  # why there is none
    concepts: list[ConceptFinding]
    failures: Failures
    trust: list[TrustFile]
    findings: list[str]
    pictures: dict[str, str]
    _drawn: dict[str, bytes] = PrivateAttr(default_factory=dict)  # PNG, by the name of the picture

    def text(self) -> str:
        return "\n".join([f"{self.run}: {self.images} {self.split} images", *(f"- {line}" for line in self.findings)])

    @property
    def drawn(self) -> dict[str, bytes]:
        """Its pictures as PNG, by name; empty for one that was read from a file."""
        return self._drawn

    def table(self) -> list[TableRow]:
        """The concepts."""
        return [{**row.model_dump(exclude={"kinds"}), "kinds": ", ".join(row.kinds)} for row in self.concepts]

    def plot(self) -> "Figure":
        """The codes among tokens; without a codebook, the groups that metadata makes."""
        from conceptlens.evaluation.codebook.pictures import codes_figure, groups_figure
        from conceptlens.evaluation.subgroups.outcomes import ACCURACY

        figure = codes_figure(self.codebook) if self.codebook else groups_figure(self.failures.groups, ACCURACY)
        if figure is None:
            raise UserError("This audit has no figure: the run has no codebook, and its data no groups.")
        return figure
