"""CLEAR: learn the concept vectors that the classes need, near where texts and images lie; then name them.

M. Dikter, T. Blau, C. Baskin: Conceptual Learning via Embedding Approximations for Reinforcing Interpretability and
Transparency, WACV 2025. In the space of a frozen vision-language encoder, with image vectors x and a pool of texts P:

    1  s(·) is a score of the distribution of texts and images, by sliced score matching
    2  S (k concept vectors) and W are learned together:
       L = L_class(W S x, y) + λ mean_i ‖norm(Langevin_s(Ŝ_i)) − Ŝ_i‖²,  Ŝ_i the i-th row at unit length
    3  every Ŝ_i is matched with a text of its own, so that the sum of cosines is largest (Hungarian method)
    4  the texts so chosen are the bottleneck, and a classifier is trained on the cosines with them

All of it is one stage of the kind `fit`.
"""

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.methods.contract import Supervision
from conceptlens.methods.fitted.data import FitData, FitImages
from conceptlens.methods.pcbm import PCBMText
from conceptlens.nn.heads.softmax_fit import Labeled, Penalty, fit_softmax, no_penalty
from conceptlens.nn.losses.score_matching import fit_score, langevin
from conceptlens.nn.setup import Setup


def match(vectors: Tensor, texts: Tensor) -> tuple[list[int], float]:
    """A text (K, D) of its own for each vector (k, D): the largest sum of cosines; positions and the mean cosine."""
    cosines = (F.normalize(vectors.double(), dim=-1) @ F.normalize(texts.double(), dim=-1).T).cpu().numpy()
    rows, columns = linear_sum_assignment(cosines, maximize=True)
    return columns.tolist(), float(cosines[rows, columns].mean())


class CLEAR(PCBMText):
    """Cosines with the texts that learned concept vectors were matched with."""

    supervision: Supervision = "text"

    def __init__(
        self,
        setup: Setup,
        *,
        concepts: int | None = None,
        score_hidden: int = 1024,
        score_steps: int = 2000,
        score_batch: int = 256,
        score_rate: float = 1e-4,
        langevin_step: float = 1.0,
        langevin_steps: int = 10,
        langevin_weight: float = 1.0,
        rate: float = 1e-2,
        steps: int = 1000,
        batch: int = 4096,
        nec: float | None = None,
    ) -> None:
        """CLEAR.

        Args:
            setup: What the model is built for.
            concepts: k, the size of the bottleneck; two for each class if not given. At most all there are.
            score_hidden: Width of the score's hidden layers.
            score_steps: Adam's steps for the score.
            score_batch: Vectors a step for the score, texts and images in turn.
            score_rate: Adam's rate for the score.
            langevin_step: ε.
            langevin_steps: Langevin steps from each concept vector.
            langevin_weight: λ; 0 learns the vectors for the classes alone.
            rate: Adam's rate for the concept vectors and the classifiers.
            steps: Adam's steps for each of them; validation chooses among every 50th.
            batch: Images a step; all if there are fewer.
            nec: Effective concepts per class of a sparse head in the place of the paper's dense one, if given.
        """
        super().__init__(setup, nec=nec)
        positive: dict[str, float] = {
            "score_hidden": score_hidden,
            "score_steps": score_steps,
            "score_batch": score_batch,
            "score_rate": score_rate,
            "langevin_step": langevin_step,
            "rate": rate,
            "steps": steps,
            "batch": batch,
        }
        for option, value in positive.items():
            if not value > 0:
                raise UserError(f"method.{option}: expected a number above 0, found {value}.")
        for option, value in (("langevin_steps", float(langevin_steps)), ("langevin_weight", langevin_weight)):
            if value < 0:
                raise UserError(f"method.{option}: expected 0 or more, found {value:g}.")
        if concepts is not None and concepts < 1:
            raise UserError(f"method.concepts: expected 1 or more, or null, found {concepts}.")
        self.wanted = concepts
        self.score_hidden, self.score_steps = score_hidden, score_steps
        self.score_batch, self.score_rate = score_batch, score_rate
        self.langevin_step, self.langevin_steps, self.langevin_weight = langevin_step, langevin_steps, langevin_weight
        self.rate, self.steps, self.batch = rate, steps, batch

    def fit(self, data: FitData) -> dict[str, float]:
        if data.task == "multilabel":
            raise UserError(
                "method.name: CLEAR's classifier decides between classes that exclude each other, but data.task is "
                "multilabel. Choose a method that trains."
            )
        train, val = _labeled(data.train, data.device), _labeled(data.val, data.device)
        count = min(self.wanted or 2 * len(data.classes), len(data.concepts))
        learned, numbers = self.learn_concepts(train, val, count, data)
        chosen, cosine = match(learned, self.vectors)
        for position in sorted(set(range(len(data.concepts))) - set(chosen)):
            data.drop(position, f"none of the {count} learned concept vectors was matched with it")
        self.keep(data.kept())
        numbers |= {"concepts": float(len(self.vectors)), "match_cosine": cosine}
        return {**numbers, **(self.fit_dense_head(train, val, data) if self.nec is None else self.fit_head(data))}

    def learn_concepts(
        self, train: Labeled, val: Labeled, count: int, data: FitData
    ) -> tuple[Tensor, dict[str, float]]:
        """Steps 1 and 2: the rows of S, (k, D), and numbers for the history."""
        numbers: dict[str, float] = {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(data.seed)
            concepts = nn.Linear(train.vectors.shape[1], count, bias=False)
            model = nn.Sequential(concepts, nn.Linear(count, len(data.classes))).to(data.device)
        chance = torch.Generator(data.device).manual_seed(data.seed + 1)
        net = None
        if self.langevin_weight and self.langevin_steps:
            data.note("learning the score of texts and images")
            net, numbers["score_loss"] = fit_score(
                (self.vectors.to(data.device), train.vectors),
                hidden=self.score_hidden,
                steps=self.score_steps,
                batch=self.score_batch,
                rate=self.score_rate,
                seed=data.seed,
            )

        def drift() -> Tensor:
            """How far Langevin steps lead away from the concept vectors, (): 2 if they end anywhere at random."""
            unit = F.normalize(concepts.weight, dim=-1)
            if net is None:
                return unit.new_zeros(())
            sample = langevin(net, unit, step=self.langevin_step, steps=self.langevin_steps, chance=chance)
            return (F.normalize(sample, dim=-1) - unit).square().sum(-1).mean()

        numbers["learned_val_loss"] = self._fit(model, train, val, data, penalty=lambda: self.langevin_weight * drift())
        if net is not None:
            with torch.no_grad():
                numbers["langevin_distance"] = float(drift())
        return concepts.weight.detach(), numbers

    def fit_dense_head(self, train: Labeled, val: Labeled, data: FitData) -> dict[str, float]:
        """Step 4: a linear classifier of the cosines, which are standardized while it is trained."""
        scores = self.scores(train.vectors)
        mean, deviation = scores.mean(0), scores.std(0, correction=0).clamp_min(1e-6)
        head = nn.Linear(len(self.vectors), len(data.classes)).to(data.device)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        seen = [Labeled((self.scores(part.vectors) - mean) / deviation, part.labels) for part in (train, val)]
        loss = self._fit(head, seen[0], seen[1], data)
        weight = head.weight.detach() / deviation
        self.head.weight.data.copy_(weight)
        self.head.bias.data.copy_(head.bias.detach() - weight @ mean)
        return {"head_val_loss": loss}

    def _fit(
        self, model: nn.Module, train: Labeled, val: Labeled, data: FitData, penalty: Penalty = no_penalty
    ) -> float:
        weights = data.class_weights.to(data.device)
        settings = {"rate": self.rate, "steps": self.steps, "batch": self.batch, "seed": data.seed}
        return fit_softmax(model, train, val, weights, penalty=penalty, **settings)  # type: ignore[arg-type]


def _labeled(images: FitImages, device: torch.device) -> Labeled:
    rows = images.labeled
    return Labeled(torch.from_numpy(images.vectors[rows]).to(device), torch.from_numpy(images.labels[rows]).to(device))
