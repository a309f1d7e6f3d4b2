"""evidence-cbm-text: the evidence of a patch is how well it fits a concept's text; no concept labels.

Ours, as `evidence-cbm`, with the encoder's own map P to its text space in place of learned weights:

    e_lk = s ⟨P z_l, t̄_k⟩         P z_l at unit length; t̄_k: the concept's text less the mean of its exclusive group
    E_lk = a_l,g(k) · e_lk         logit_k = Σ_l E_lk + u_k

u_k takes the mean score of a few training images away: texts lie at different distances from all images alike. The
attention learns from the class loss, the only one there is, or counts all patches the same (`attention: uniform`).
CLIPs are trained to match their pooled vector with texts, not their patches: how far patches do is to be measured.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import PATCH_VECTORS, Supervision, in_text_space
from conceptlens.methods.evidence_cbm import EvidenceCBM
from conceptlens.nn.attention.additive_reader import AdditiveReader, AttentionPer
from conceptlens.nn.grounding.part_places import Places
from conceptlens.nn.heads.bottleneck import Reads
from conceptlens.nn.setup import Setup


class EvidenceText(EvidenceCBM):
    """Patch-text similarities, summed to concepts; a linear class head on them."""

    supervision: Supervision = "text"
    uses_text = True
    uses_patch_vectors = True

    def __init__(
        self,
        setup: Setup,
        *,
        attention: AttentionPer = "group",
        temperature: float = 1.0,
        entropy_weight: float = 0.0,
        logit_scale: float = 100.0,
        residual: bool = False,
        space: Reads = "log-probability",
        head_rate: float = 5.0,
        places: Places = "none",
        parts: str = "auto",
        keypoint_fraction: float = 1.0,
        sigma: float | None = None,
        alignment_weight: float = 0.1,
    ) -> None:
        """evidence-cbm-text.

        Args:
            setup: What the model is built for.
            attention: What has an attention of its own: each `group`, each `concept`, or nothing: one is `shared`. It
                learns from the class loss. `uniform`: all patches count the same, and the class has no say.
            temperature: Of the attention's softmax; below 1, fewer patches count.
            entropy_weight: Weight of the attention's entropy in the loss: above 0, fewer patches count.
            logit_scale: Scale of the similarities; 100 is CLIP's.
            residual: Let the class token reach the class past the concepts: a declared bypass.
            space: What the class head reads: logits, probabilities within each group, or their logarithm.
            head_rate: The class head's learning rate as a multiple of the training's.
            places: What tells the attention where parts are: nothing; `points` marked in the training images; or a
                `prior`, a learnable Gaussian for each part.
            parts: Which part each concept speaks of, for `places`: as for `pf-cbm`, but a concept without a part speaks
                of the whole.
            keypoint_fraction: Share of the training images whose points tell where the Gaussians begin.
            sigma: Width of the Gaussians at the start, in patches; 5 on a grid of 32, as much of another by default.
            alignment_weight: Weight of the loss between centers of attention and points.
        """
        if logit_scale <= 0:
            raise UserError(f"method.logit_scale: expected a number above 0, found {logit_scale}.")
        super().__init__(
            setup,
            attention=attention,
            temperature=temperature,
            entropy_weight=entropy_weight,
            residual=residual,
            space=space,
            randint=0.0,
            class_gradient=1.0,
            calibrate=False,
            head_rate=head_rate,
            places=places,
            parts=parts,
            keypoint_fraction=keypoint_fraction,
            sigma=sigma,
            alignment_weight=alignment_weight,
        )
        self.reader = AdditiveReader(
            setup.concepts,
            (*setup.layer_widths, setup.width),
            attention=attention,
            temperature=temperature,
            fixed=logit_scale * setup.text,
        )
        self.reader.bias.requires_grad_(False)

    def seen(self, tokens: Tokens) -> Tensor:
        """The patches in the encoder's text space."""
        return in_text_space(tokens.aux[PATCH_VECTORS], self.reader.weights.shape[1])

    @torch.no_grad()
    def prepare(self, tokens: Iterable[Tokens], concepts: ConceptSet) -> ConceptSet:
        """Take the mean score of these images away from each concept."""
        pieces = list(tokens)
        if pieces:
            self.reader.bias.zero_()
            scores = [self.read(piece).logits for piece in pieces]
            self.reader.bias.copy_(-torch.cat(scores).mean(0))
        return super().prepare(pieces, concepts)
