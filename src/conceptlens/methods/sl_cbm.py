"""SL-CBM: a map for each concept, and one attention over patches that the likeness to texts asks for.

H. Zhang et al.: SL-CBM: Enhancing Concept Bottleneck Models with Semantic Locality for Better Interpretability, AAAI
2026 (arXiv 2601.12804), as its published code computes it:

    S_l = W z_l + b                                         (K,) a patch: the concepts' maps, by a 1 × 1 convolution
    q = ⟨image, t_k⟩_k                                      (K,): similarity of the image's vector with the texts
    a_l = softmax_l(⟨W_q q, W_k norm(S_l)⟩ / √K)            cross-attention in the space of concepts, one for all
    f_k = Σ_l a_l norm(S_l)_k                               the bottleneck; class = linear(norm(f))
    L = λ₁ L_class + λ₂ L_concept + λ₃ H(softmax_k S_l)     entropy: few concepts a patch

norm is a layer norm over the K concepts. f is a sum over patches, so that a_l norm(S_l)_k is what patch l adds to it.
"""

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import IMAGE_VECTOR, ConceptModel, ConceptOutput, in_text_space
from conceptlens.nn.heads.bottleneck import Bottleneck, RandInt
from conceptlens.nn.setup import Setup


class SLCBM(ConceptModel):
    """Concept maps by a linear map of patches, pooled by attention that image-text similarities ask for."""

    uses_image_vector = True
    has_attention = True
    has_evidence = True

    def __init__(
        self,
        setup: Setup,
        *,
        entropy_weight: float = 0.1,
        randint: RandInt = 0.0,
        class_gradient: float = 1.0,
        calibrate: bool = False,
        head_rate: float = 1.0,
    ) -> None:
        """SL-CBM.

        Args:
            setup: What the model is built for.
            entropy_weight: Weight of the mean entropy of a patch's concepts.
            randint: Chance that a group is set to its labels in training, so that the head learns to take corrections;
                `uniform` draws a chance for each image.
            class_gradient: How much of the class loss reaches the concepts: 1 joint, 0 sequential training.
            calibrate: Fit the probabilities' temperatures on validation after every epoch.
            head_rate: The class head's learning rate as a multiple of the training's.
        """
        super().__init__()
        if entropy_weight < 0:
            raise UserError(f"method.entropy_weight: expected 0 or more, found {entropy_weight}.")
        count = len(setup.concepts)
        self.entropy_weight = entropy_weight
        self.bottleneck = Bottleneck(setup.concepts, "logit", randint, class_gradient, calibrate)
        self.register_buffer("text", setup.text.clone())
        self.text: Tensor
        self.register_buffer("concept_slot", torch.zeros(count, dtype=torch.int64))
        self.maps = nn.Linear(setup.width, count)
        self.norm = nn.LayerNorm(count, eps=1e-6)
        self.query, self.key = (nn.Linear(count, count, bias=False) for _ in range(2))
        self.head = nn.Sequential(nn.LayerNorm(count), nn.Linear(count, setup.classes))
        self.set_head_rate(head_rate)

    def forward(self, tokens: Tokens) -> ConceptOutput:
        image = in_text_space(tokens.aux[IMAGE_VECTOR], self.text.shape[1]).to(self.text.dtype)
        maps = self.maps(tokens.patches).float()  # S, (B, L, K)
        normal = self.norm(maps)
        asked = self.query(image @ self.text.T) / maps.shape[-1] ** 0.5  # (B, K)
        attention = (self.key(normal) @ asked.unsqueeze(-1)).float().softmax(1).mT  # (B, 1, L)
        added = attention * normal.mT  # (B, K, L)
        scores = added.sum(-1)
        spread = torch.special.entr(maps.softmax(-1)).sum(-1).mean(-1)  # (B,)
        output = self.through_bottleneck(
            scores, attention=attention, losses={"entropy": self.entropy_weight * spread} if self.entropy_weight else {}
        )
        scale = torch.ones_like(scores) if self.training else self.bottleneck.calibrated(torch.ones_like(scores))
        output.evidence, output.unplaced = added * scale.unsqueeze(-1), torch.zeros_like(scores)
        return output
