"""Does a map show what the model used? Insertion and deletion, occlusion of parts, stability, randomized weights."""

from conceptlens.evaluation.faithfulness.curves import Curves, insertion_deletion, random_orders
from conceptlens.evaluation.faithfulness.fill import FILLS, Fill, filled
from conceptlens.evaluation.faithfulness.occlusion import Occlusion, occlude_parts, own_against_others
from conceptlens.evaluation.faithfulness.randomization import shuffled
from conceptlens.evaluation.faithfulness.stability import rank_correlation, with_noise

__all__ = [
    "FILLS",
    "Curves",
    "Fill",
    "Occlusion",
    "filled",
    "insertion_deletion",
    "occlude_parts",
    "own_against_others",
    "random_orders",
    "rank_correlation",
    "shuffled",
    "with_noise",
]
