"""The black box: class logits straight from the image's vector. The bar that a bottleneck is measured against.

It reads no concepts and says so: its concept scores have no columns, nothing is measured of them, and what reaches the
class is declared as a bypass. A linear probe is this with `encoder.train: none`; with `all` it is fine-tuned.
"""

from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptModel, ConceptOutput
from conceptlens.nn.attention.global_token import Pool, global_token
from conceptlens.nn.setup import Setup


class BlackBox(ConceptModel):
    """A linear classifier on one vector per image, of any encoder."""

    supervision = "class-labels"
    uses_text = False
    reads_concepts = False
    bypass = "the whole image vector"

    def __init__(self, setup: Setup, *, pool: Pool = "cls", dropout: float = 0.0) -> None:
        """A black box.

        Args:
            setup: What the model is built for.
            pool: The class token (of a network without one, the mean of its last map), or the mean of the patches.
            dropout: Share of the vector's entries that are dropped in training.
        """
        super().__init__()
        if not 0 <= dropout < 1:
            raise UserError(f"method.dropout: expected a share from 0 to below 1, found {dropout}.")
        self.pool, self.classes = pool, setup.classes
        # Not called `head`: that is what reads concepts.
        self.classify = nn.Sequential(nn.Dropout(dropout), nn.Linear(setup.width, setup.classes))

    def forward(self, tokens: Tokens) -> ConceptOutput:
        logits = self.classify(global_token(tokens, self.pool))
        none = logits.new_zeros(logits.shape[0], 0)
        return ConceptOutput(logits=logits, concept_logits=none, bottleneck=none)

    def decide(self, bottleneck: Tensor) -> Tensor:
        """Concepts decide nothing."""
        return bottleneck.new_zeros(len(bottleneck), self.classes)
