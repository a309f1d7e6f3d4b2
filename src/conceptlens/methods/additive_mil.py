"""Additive MIL: class logits as sums over patches, without concepts. What an additive reader can do with classes alone.

S. A. Javed et al.: Additive MIL: Intrinsically Interpretable Multiple Instance Learning for Pathology, NeurIPS 2022.
The classifier is applied to each patch before the sum rather than behind it:

    α_l = softmax_l(w · tanh(V x_l))           attention of Ilse et al., Attention-based Deep MIL, ICML 2018
    C_l = ψ(α_l x_l)                           what patch l adds to the class logits
    logits = Σ_l C_l + b

It reads no concepts and says so, as `black-box` does. x_l are the tokens of the layers read, side by side, each
normalized.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptModel, ConceptOutput
from conceptlens.nn.setup import Setup


class AdditiveMIL(ConceptModel):
    """Attention over patches; a classifier on each, and the sum."""

    supervision = "class-labels"
    uses_text = False
    reads_concepts = False
    bypass = "patches, each classified by itself and summed"

    def __init__(self, setup: Setup, *, inner: int = 128, hidden: int = 0) -> None:
        """Additive MIL.

        Args:
            setup: What the model is built for.
            inner: Width of the attention's hidden layer.
            hidden: Width of a hidden layer of ψ, the classifier of a patch; 0: linear.
        """
        super().__init__()
        if inner < 1 or hidden < 0:
            raise UserError(f"method.inner, method.hidden: expected 1 or more and 0 or more, found {inner}, {hidden}.")
        width = sum((*setup.layer_widths, setup.width))
        self.classes = setup.classes
        self.attend = nn.Sequential(nn.Linear(width, inner), nn.Tanh(), nn.Linear(inner, 1, bias=False))
        # Not called `head`: that is what reads concepts.
        self.classify: nn.Module = nn.Linear(width, setup.classes, bias=False)
        if hidden:
            self.classify = nn.Sequential(
                nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, setup.classes, bias=False)
            )
        self.bias = nn.Parameter(torch.zeros(setup.classes))

    def forward(self, tokens: Tokens) -> ConceptOutput:
        layers = (*tokens.layers, tokens.patches)
        x = torch.cat([F.layer_norm(layer, layer.shape[-1:]) for layer in layers], -1)
        attention = self.attend(x).float().softmax(1)  # (B, L, 1)
        evidence = self.classify(attention.to(x.dtype) * x).float()  # (B, L, C)
        logits = evidence.sum(1) + self.bias
        none = logits.new_zeros(logits.shape[0], 0)
        return ConceptOutput(logits=logits, concept_logits=none, bottleneck=none, class_evidence=evidence.mT)

    def decide(self, bottleneck: Tensor) -> Tensor:
        """Concepts decide nothing."""
        return bottleneck.new_zeros(len(bottleneck), self.classes)
