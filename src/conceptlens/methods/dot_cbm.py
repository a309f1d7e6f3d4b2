"""DOT-CBM: concepts are predicted by transporting an image's patches to them.

Y. Xie, Z. Zeng, H. Zhang, Y. Ding, Y. Wang, Z. Wang, B. Chen, H. Liu: Discovering Fine-Grained Visual-Concept Relations
by Disentangled Optimal Transport Concept Bottleneck Models, CVPR 2025. Adapters bring patches and texts to a common
unit sphere; a plan T between them is found, given how much each patch and each concept is worth beforehand:

    x_i = norm(A_v z_i)    t_j = norm(A_t text_j)    C_ij = 1 − ⟨x_i, t_j⟩
    T = argmin ⟨T, C⟩ − ε H(T)   with T1 = a (visual saliency) and Tᵀ1 = b (statistics of the concept labels)
    s_j = Σ_i T_ij ⟨x_i, t_j⟩ / b_j                                what is transported to a concept, compared with it
    L = L_class + L_concept + λ_v mean_i≠k |⟨x_i, x_k⟩| + λ_t mean_j≠k |⟨t_j, t_k⟩|       orthogonal projections

T_·j / b_j is the concept's map. What the paper leaves open is listed on the method's card.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.concepts import UNKNOWN
from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptModel, ConceptOutput
from conceptlens.nn.heads.bottleneck import Bottleneck, RandInt, Reads
from conceptlens.nn.setup import Setup
from conceptlens.nn.transport.sinkhorn import sinkhorn


class DOTCBM(ConceptModel):
    """Optimal transport between patches and concepts."""

    has_attention = True

    def __init__(
        self,
        setup: Setup,
        *,
        visual_prior: Literal["cls", "contrast", "uniform"] = "cls",
        saliency: float = 1.0,
        concept_prior: Literal["frequency", "rarity", "uniform"] = "frequency",
        eps: float = 0.1,
        iterations: int = 100,
        gradient: Literal["implicit", "unrolled"] = "implicit",
        adapter: Literal["mlp", "linear"] = "mlp",
        adapter_width: int | None = None,
        orthogonal_patches: float = 0.1,
        orthogonal_concepts: float = 0.1,
        logit_scale: float = 10.0,
        learn_logit_scale: bool = True,
        logit_bias: bool = True,
        space: Reads = "logit",
        randint: RandInt = 0.0,
        class_gradient: float = 1.0,
        calibrate: bool = False,
        head_rate: float = 1.0,
    ) -> None:
        """DOT-CBM.

        Args:
            setup: What the model is built for.
            visual_prior: What makes a patch worth much: likeness to the class token, distance from the image's mean
                patch, or nothing.
            saliency: How unevenly, in logits per standard deviation over the image's patches; 0 is as `uniform`.
            concept_prior: What makes a concept worth much: being frequent among the training labels, being rare there,
                or nothing.
            eps: ε, the strength of the entropy; costs lie in [0, 2]. The smaller, the sharper the maps.
            iterations: Sinkhorn iterations; the history's `transport_error` tells if they are too few for this ε.
            gradient: Of the plan, by the implicit function theorem, or `unrolled` through all iterations.
            adapter: For patches and for texts: a network of two layers each, or a linear map.
            adapter_width: Width of the common space; that of the texts, if not given.
            orthogonal_patches: λ_v; 0 leaves the term out.
            orthogonal_concepts: λ_t; 0 leaves the term out.
            logit_scale: Scale of the scores, which lie in [−1, 1], where no cross-entropy can become small.
            learn_logit_scale: Whether the scale learns.
            logit_bias: Whether each concept has a bias that learns.
            space: What the class head reads: logits, probabilities within each group, or their logarithm.
            randint: Chance that a group is set to its labels in training, so that the head learns to take corrections;
                `uniform` draws a chance for each image.
            class_gradient: How much of the class loss reaches the concepts: 1 joint, 0 sequential training.
            calibrate: Fit the probabilities' temperatures on validation after every epoch.
            head_rate: The class head's learning rate as a multiple of the training's.
        """
        super().__init__()
        width = setup.text.shape[1] if adapter_width is None else adapter_width
        for option, fine, words, found in (
            ("saliency", saliency >= 0, "0 or more", saliency),
            ("eps", eps > 0, "a number above 0", eps),
            ("iterations", iterations >= 1, "1 or more", iterations),
            ("adapter_width", width >= 1, "a width of 1 or more", width),
            ("orthogonal_patches", orthogonal_patches >= 0, "0 or more", orthogonal_patches),
            ("orthogonal_concepts", orthogonal_concepts >= 0, "0 or more", orthogonal_concepts),
            ("logit_scale", logit_scale > 0, "a number above 0", logit_scale),
        ):
            if not fine:
                raise UserError(f"method.{option}: expected {words}, found {found}.")
        self.visual_prior, self.saliency, self.concept_prior = visual_prior, saliency, concept_prior
        self.eps, self.iterations = eps, iterations
        self.gradient: Literal["implicit", "unrolled"] = gradient
        self.orthogonal = {"orthogonal_patches": orthogonal_patches, "orthogonal_concepts": orthogonal_concepts}
        self.space, self.bottleneck = space, Bottleneck(setup.concepts, space, randint, class_gradient, calibrate)
        count = len(setup.concepts)
        self.register_buffer("concept_slot", torch.arange(count))
        self.concept_slot: Tensor
        self.register_buffer("text", setup.text.clone())
        self.text: Tensor
        self.register_buffer("label_counts", torch.zeros(2, count))  # of training labels: positive, and known
        self.label_counts: Tensor
        self.adapt_patches = make_adapter(adapter, setup.width, width)
        self.adapt_text = make_adapter(adapter, setup.text.shape[1], width)
        self.log_scale = nn.Parameter(torch.tensor(math.log(logit_scale)), requires_grad=learn_logit_scale)
        self.bias = nn.Parameter(torch.zeros(count), requires_grad=logit_bias)
        self.head = nn.Linear(count, setup.classes)
        self.set_head_rate(head_rate)

    def patch_masses(self, tokens: Tokens) -> Tensor:
        """a: what each patch is worth, (B, L); a prior, so no gradient goes through it."""
        z = tokens.patches.detach().float()
        if self.visual_prior == "uniform":
            return z.new_full(z.shape[:2], 1 / z.shape[1])
        if self.visual_prior == "contrast":
            salient = (z - z.mean(1, keepdim=True)).norm(dim=-1)
        elif tokens.cls is None:
            raise UserError("method.visual_prior: cls needs an encoder with a class token. Use contrast or uniform.")
        else:
            salient = F.cosine_similarity(z, tokens.cls.detach().float().unsqueeze(1), dim=-1)
        salient = salient - salient.mean(1, keepdim=True)
        deviation = salient.square().mean(1, keepdim=True).sqrt().clamp_min(1e-4)  # patches all alike stay alike
        prior: Tensor = (self.saliency * salient / deviation).softmax(1)
        return prior

    def concept_masses(self) -> Tensor:
        """b: what each concept is worth, (K,); even as long as no labels were seen."""
        share = (self.label_counts[0] + 1) / (self.label_counts[1] + 2)
        masses = {"frequency": share, "rarity": 1 / share, "uniform": torch.ones_like(share)}[self.concept_prior]
        return masses / masses.sum()

    def forward(self, tokens: Tokens) -> ConceptOutput:
        with torch.autocast(tokens.patches.device.type, enabled=False):
            x = F.normalize(self.adapt_patches(tokens.patches.to(self.text.dtype)), dim=-1)  # (B, L, E)
            t = F.normalize(self.adapt_text(self.text), dim=-1)  # (K, E)
            plan = sinkhorn(
                1 - x @ t.T,
                self.patch_masses(tokens),
                self.concept_masses(),
                eps=self.eps,
                iterations=self.iterations,
                gradient=self.gradient,
            )
            attention = (plan / plan.sum(1, keepdim=True)).transpose(1, 2)  # (B, K, L)
            slots = attention @ x
            scores = self.log_scale.exp() * (slots * t).sum(-1) + self.bias
            return self.through_bottleneck(
                scores,
                slots=slots,
                attention=attention,
                assignment=plan / plan.sum(2, keepdim=True),
                losses=self.orthogonality(x, t),
            )

    def orthogonality(self, x: Tensor, t: Tensor) -> dict[str, Tensor]:
        """The two projection losses, weighted, one value per image (B,)."""
        terms = {"orthogonal_patches": x, "orthogonal_concepts": t.unsqueeze(0)}
        return {
            name: (self.orthogonal[name] * overlap(vectors)).expand(x.shape[0])
            for name, vectors in terms.items()
            if self.orthogonal[name] > 0
        }

    def see_labels(self, labels: Tensor) -> None:
        """Count the training labels: their statistics are the concepts' prior from the next batch on."""
        if self.concept_prior != "uniform":
            counts = torch.stack([(labels == 1).sum(0), (labels != UNKNOWN).sum(0)])
            self.label_counts.add_(counts.to(self.label_counts))

    @torch.no_grad()
    def end_epoch(self, tokens: Tokens) -> dict[str, float]:
        """How much mass, as a share of all, is not where the visual prior wants it; 0 once the plan has converged."""
        found = torch.einsum("bkl,k->bl", self(tokens).attention, self.concept_masses())  # the plan's row sums
        return {"transport_error": float((found - self.patch_masses(tokens)).abs().sum(1).mean() / 2)}


def make_adapter(kind: Literal["mlp", "linear"], width: int, out: int) -> nn.Module:
    """From tokens or texts to the common space; a linear one starts as an orthogonal projection, which keeps angles."""
    if kind == "mlp":
        return nn.Sequential(nn.Linear(width, out), nn.GELU(), nn.Linear(out, out))
    adapter = nn.Linear(width, out)
    nn.init.orthogonal_(adapter.weight)
    return adapter


def overlap(vectors: Tensor) -> Tensor:
    """Mean absolute cosine of all pairs of unit vectors (B, n, E), (B,); 0 if they are orthogonal to each other."""
    n = vectors.shape[1]
    gram = vectors @ vectors.transpose(1, 2)
    pairs: Tensor = gram.abs().sum((1, 2)) - gram.diagonal(dim1=1, dim2=2).abs().sum(1)
    return pairs / max(n * (n - 1), 1)
