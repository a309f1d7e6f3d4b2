"""Many settings of one recipe trained side by side on tokens in memory, by the product's modules, losses and orders.

Settings that read the same tokens share every batch: what is drawn, which patches are hidden and what layers are
normalized is computed once. The queries of all trials read the patches as if they were one model's (`AllReaders`), the
rest is computed by `torch.func.vmap`. A trial that is over leaves the others. The equations are
those of `conceptlens.training`: AdamW by `build_optimizer`'s groups, `rate`, `Order`, RandInt's draws, temperatures
fitted after each validation, the best epoch by balanced accuracy and then by concept AUC, patience. `run.py check`
trains a default both ways.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from conceptlens.encoders.contract import Encoder, Tokens
from conceptlens.evaluation.classification.balanced import balanced_accuracy
from conceptlens.evaluation.concepts.concepts import concept_metrics
from conceptlens.methods.contract import DRAWS, ConceptModel, Pipeline
from conceptlens.nn.attention.additive_reader import AdditiveReader, Evidence, kept_patches
from conceptlens.nn.heads.bottleneck import ONE_IMAGE, SHARPEST
from conceptlens.recipes import Recipe
from conceptlens.training.batches.order import Order
from conceptlens.training.epochs import number_of
from conceptlens.training.loop import RANDINT
from conceptlens.training.optimization.losses import SupervisedLoss, Targets, class_weights
from conceptlens.training.optimization.optimizer import NO_DECAY
from conceptlens.training.optimization.schedule import rate
from conceptlens.training.session import Session
from conceptlens.training.start import rest_randint

READER = "model.reader"
OWN = ("sharpness",)  # buffers that trials have of their own
Tensors = dict[str, Tensor]
Indices = npt.NDArray[np.int64]


class Taught(nn.Module):
    """A model that is taught: what the losses see of a batch while training, or what it says of images."""

    def __init__(self, model: ConceptModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Any, labels: Tensor | None, chance: Tensor | None) -> tuple[Tensor, Tensor]:
        model = self.model
        if chance is not None and model.draws:
            tokens.aux = {**tokens.aux, DRAWS: chance[:, : model.draws]}
        output = model(tokens)
        if labels is not None:
            output.chance = None if chance is None else chance[:, model.draws :]
            output = model.teach(output, labels)
        return output.logits, output.concept_logits


@dataclass
class Trial:
    """A setting, and the best that validation has seen of it."""

    name: str
    recipe: Recipe  # with numbers for every `auto`
    value: float = -1.0
    tie: float = 0.0
    epoch: int = 0
    waited: int = 0
    done: bool = False
    weights: Tensors = field(default_factory=dict)
    reader_decay: float | None = None  # of what evidence is read with, in place of the recipe's
    from_zero: bool = False  # whether that begins at zero
    shift: Tensor | None = None  # (D,): what is taken from the vectors that it reads,
    scale: Tensor | None = None  # (D,): and what they are multiplied by then
    by_concepts: bool = False  # whether the concept AUC chooses the epoch, and the class decides ties

    @property
    def epochs(self) -> int:
        return number_of(self.recipe.training.epochs)

    def rate(self, name: str, usual: float) -> float:
        """Of a parameter, as a multiple of the training's."""
        own = self.recipe.method.get("head_rate") if name.startswith("model.head.") else None
        return float(own) if isinstance(own, (int, float)) else usual

    def decay(self, name: str) -> float:
        own = self.reader_decay if name == f"{READER}.weights" else None
        return self.recipe.training.weight_decay if own is None else own


def train_together(session: Session, pipeline: Pipeline, packed: Tensor, rows: Indices, trials: list[Trial]) -> "Judge":
    """Train all trials, whose recipes differ in rates, decays, weights of losses, class balance and epochs only.

    Args:
        session: Labels and splits.
        pipeline: With fresh weights; its encoder is cut for `packed`.
        packed: (N, …), what a store keeps of the images, on the device.
        rows: Where each image lies in it, as long as the data.
        trials: They get their best weights.

    Returns:
        What tests one of them.
    """
    device, examples, splits = packed.device, session.source.examples, session.splits
    concepts, base = session.blueprint.concepts, trials[0].recipe
    rest_randint(pipeline, examples.concepts[splits.train], examples.labels[splits.train])
    whole, training, encoder = Taught(pipeline.model).to(device), base.training, pipeline.encoder

    def stacked(named: Iterable[tuple[str, Tensor]]) -> Tensors:  # one seed: all begin alike
        return {name: torch.stack([value.detach()] * len(trials)) for name, value in named}

    parameters = stacked((name, value) for name, value in whole.named_parameters() if value.requires_grad)
    own = stacked((name, value) for name, value in whole.named_buffers() if name.split(".")[-1] in OWN)
    for place, trial in enumerate(trials):
        if trial.from_zero:
            parameters[f"{READER}.weights"][place] = 0.0
    shared = dict(whole.named_buffers())

    def per_trial(values: Sequence[float] | Sequence[Sequence[float]]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=device)

    usual = {name: float(getattr(value, "rate", 1.0)) for name, value in whole.named_parameters()}
    rates = {name: per_trial([trial.rate(name, usual[name]) for trial in trials]) for name in parameters}
    spared = {n: value.ndim < 2 or any(word in n for word in NO_DECAY) for n, value in whole.named_parameters()}
    peak = per_trial([trial.recipe.training.learning_rate for trial in trials])
    decay = {name: per_trial([trial.decay(name) for trial in trials]) for name in parameters}
    concept_weight = per_trial([trial.recipe.training.loss.concept_weight for trial in trials])
    classes = len(session.blueprint.classes)
    balance = [class_weights(t.recipe.training.loss, examples.labels[splits.train], classes, "single") for t in trials]
    class_weight = torch.stack(balance).to(device)  # (T, C)
    loss = SupervisedLoss(training.loss, concepts, "single", torch.ones(classes, device=device))
    order = Order.plan(splits.train, training.batch_size, 1, base.seed)
    bottleneck = getattr(whole.model, "bottleneck", None)
    draws = whole.model.draws + (bottleneck.draws if bottleneck is not None and bottleneck.randint else 0)

    def objective(
        learned: Tensors,
        evidence: Tensor,
        own: Tensors,
        weight: Tensor,
        weights: Tensor,
        tokens: Any,
        targets: Targets,
        counts: Any,
    ) -> Tensor:
        if readers is not None:
            readers.evidence = evidence
        logits, scores = functional_call(
            whole, {**shared, **learned, **own}, (tokens, targets.concepts, targets.chance)
        )
        share = weights[targets.labels]
        surprise = -logits.float().log_softmax(-1).gather(1, targets.labels[:, None])[:, 0]
        total = training.loss.class_weight * (share * surprise).sum() / share.sum().clamp_min(1e-8)
        if scores.shape[1]:
            total = total + weight * loss.concept_loss(scores.float(), targets, counts)
        return total

    slopes = vmap(grad(objective, argnums=(0, 1)), in_dims=(0, 0, 0, 0, 0, None, None, None), randomness="error")
    first = {name: torch.zeros_like(value) for name, value in parameters.items()}
    second = {name: torch.zeros_like(value) for name, value in parameters.items()}
    judge = Judge(session, encoder, packed, rows, whole, shared)
    learned = Decoded(encoder, packed[judge.places(splits.train)])
    reader = getattr(whole.model, "reader", None)
    readers = AllReaders(reader, learned, trials) if isinstance(reader, AdditiveReader) else None
    place_of = torch.full((len(rows),), -1, dtype=torch.int64)
    place_of[torch.from_numpy(splits.train)] = torch.arange(len(splits.train))
    average = {name: value.clone() for name, value in parameters.items()}  # `WeightAverage`, or the weights themselves
    kept = per_trial([trial.recipe.training.ema or 0.0 for trial in trials])
    steps, seen, running = order.steps, 0, list(trials)
    one, two = training.betas
    for epoch in range(max(trial.epochs for trial in trials)):
        whole.train()
        factors = [[_factor(trial, epoch * steps + step, steps) for trial in running] for step in range(steps)]
        factor = per_trial(factors)  # (steps, T), sent at once
        for step, batch in enumerate(order.epoch(epoch)):
            targets = Targets.of(examples, batch).to(device)
            counts = loss.count(targets)
            if draws:
                key = (base.seed, epoch, step, RANDINT)
                drawn = np.random.default_rng(key).random((len(batch), draws), dtype=np.float32)
                targets = replace(targets, chance=torch.from_numpy(drawn).to(device))
            places = place_of[torch.from_numpy(batch)].to(device)
            evidence = torch.zeros(len(running), 0, device=device)
            if readers is None:
                tokens = learned.of(places)
            else:
                tokens, evidence = learned.of(places[:1]), readers.read(parameters, places, targets.chance)
            slope, back = slopes(
                parameters, evidence.detach(), own, concept_weight, class_weight, tokens, targets, counts
            )
            if readers is not None:
                slope |= readers.slopes(evidence, back)
            seen += 1
            norm = torch.stack([value.flatten(1).square().sum(1) for value in slope.values()]).sum(0).sqrt()
            clip = (training.clip / (norm + 1e-6)).clamp_max(1.0) if training.clip else torch.ones_like(norm)
            for name, value in parameters.items():
                wide = (-1, *[1] * (value.ndim - 1))
                pull = slope[name] * clip.view(wide)
                lr = (peak * rates[name] * factor[step]).view(wide)
                first[name].lerp_(pull, 1 - one)
                second[name].mul_(two).addcmul_(pull, pull, value=1 - two)
                if not (spared[name] and training.decay == "matrices"):
                    value.mul_(1 - lr * decay[name].view(wide))
                size = (second[name] / (1 - two**seen)).sqrt_().add_(1e-8)
                value.sub_(lr / (1 - one**seen) * first[name] / size)
                new = 1 - kept.clamp_max((1 + seen) / (10 + seen))
                average[name].lerp_(value, new.view(wide))
        due = [place for place, trial in enumerate(running) if _is_due(trial, epoch + 1)]
        if due:
            judge.validate(
                [running[place] for place in due],
                due,
                epoch + 1,
                average if readers is None else readers.plain(average),
                own,
            )
        left = [place for place, trial in enumerate(running) if not trial.done]
        if not left:
            break
        if len(left) < len(running):
            if readers is not None:
                readers.keep(left)
            running = [running[place] for place in left]
            for stack in (parameters, average, own, first, second, decay, rates):
                stack.update({name: value[left] for name, value in stack.items()})
            kept, peak, concept_weight, class_weight = (v[left] for v in (kept, peak, concept_weight, class_weight))
    return judge


def _factor(trial: Trial, step: int, steps: int) -> float:
    """The rate at a step relative to the peak; nothing more is learned once all epochs are over."""
    return rate(trial.recipe.training, step, steps, trial.epochs) if step < trial.epochs * steps else 0.0


def _is_due(trial: Trial, epoch: int) -> bool:
    return epoch == trial.epochs or epoch % (trial.recipe.training.validate_every or 1) == 0


class Decoded:
    """Tokens of some images as the model reads them: an encoder that stays as it is says them once."""

    @torch.no_grad()
    def __init__(self, encoder: Encoder, packed: Tensor) -> None:
        pieces = [encoder.from_stored(piece) for piece in packed.split(64)]
        self.like = pieces[0]
        self.parts = [torch.cat(parts) for parts in zip(*(piece.parts() for piece in pieces), strict=True)]

    def of(self, places: Tensor) -> Tokens:
        return self.like.with_parts([part[places] for part in self.parts])


class AllReaders:
    """The readers of all trials at once: T times S queries of the same patches, and what each trial says of them.

    While training, the model's own reader hands on what is found here; `vmap` would copy the patches for each trial.
    """

    def __init__(self, reader: AdditiveReader, learned: Decoded, trials: Sequence[Trial]) -> None:
        if reader.mixture is not None or reader.gates is not None or "weights" not in dict(reader.named_parameters()):
            raise ValueError("a reader of layers side by side is expected, with weights that learn")
        self.reader, self.evidence = reader, torch.empty(0)
        tokens = learned.of(torch.arange(len(learned.parts[0]), device=learned.parts[0].device))
        self.patches = tokens.patches.shape[1]
        layers = [F.layer_norm(layer, layer.shape[-1:]) for layer in (*tokens.layers, tokens.patches)]
        self.x = [layer.flatten(0, 1) for layer in layers]  # a row for each patch of each image
        self.names = [f"model.reader.{name}" for name, _ in reader.named_parameters()]
        self.leaves: list[Tensor] = []
        nothing = torch.zeros(sum(layer.shape[-1] for layer in self.x), device=self.x[0].device)
        shifts = [nothing if trial.shift is None else trial.shift.to(nothing) for trial in trials]
        scales = [nothing + 1 if trial.scale is None else trial.scale.to(nothing) for trial in trials]
        self.shift, self.scale = torch.stack(shifts).unsqueeze(1), torch.stack(scales).unsqueeze(1)  # (T, 1, D)
        self.moved = any(trial.shift is not None or trial.scale is not None for trial in trials)
        own = reader.forward

        def forward(*args: Any) -> Evidence:
            return Evidence(self.evidence, self.evidence, None) if reader.training else own(*args)

        reader.forward = forward  # type: ignore[method-assign, assignment]

    def read(self, parameters: Tensors, places: Tensor, chance: Tensor | None) -> Tensor:
        """Concept logits (T, B, K) of the images at `places`: `AdditiveReader.forward` while it trains."""
        reader, kept = self.reader, torch.arange(self.patches, device=places.device).expand(len(places), -1)
        if reader.dropout:
            assert chance is not None
            kept = kept_patches(chance[:, :1], self.patches, reader.dropout)
        read = (places.unsqueeze(1) * self.patches + kept).flatten()  # what is hidden is never copied
        x = [part.index_select(0, read).view(*kept.shape, -1) for part in self.x]
        named = {name: parameters[name].detach().requires_grad_() for name in self.names}
        self.leaves = list(named.values())
        queries, weights, bias = (named[f"model.reader.{name}"] for name in ("queries", "weights", "bias"))
        asked = reader.project(x, queries.flatten(0, 1) / reader.temperature)  # (B, L, T S)
        attention = asked.softmax(1).transpose(1, 2)
        gathered = torch.cat([attention @ part for part in x], -1).unflatten(1, queries.shape[:2])  # (B, T, S, D)
        centered, slots = vmap(reader.center)(weights), reader.concept_slot
        average: Tensor | float = 0.0
        if self.moved:
            centered = centered * self.scale
            average = (centered * self.shift).sum(-1).unsqueeze(1)  # what an average patch says, (T, 1, K)
        order = slots.argsort(stable=True)
        logits = [
            torch.einsum("btd,tkd->tbk", gathered[:, :, slot], centered[:, slots == slot])
            for slot in range(queries.shape[1])
        ]
        said = torch.cat(logits, -1)[..., order.argsort()] - average
        return said + vmap(reader.center)(bias.unsqueeze(-1)).transpose(1, 2)

    def plain(self, parameters: Tensors) -> Tensors:
        """Parameters by which the model's own reader says the same of vectors as they are."""
        if not self.moved:
            return parameters
        weights = vmap(self.reader.center)(parameters[f"{READER}.weights"]) * self.scale
        bias = parameters[f"{READER}.bias"] - (weights * self.shift).sum(-1)
        return {**parameters, f"{READER}.weights": weights, f"{READER}.bias": bias}

    def keep(self, left: list[int]) -> None:
        """Go on with these trials."""
        self.shift, self.scale = self.shift[left], self.scale[left]

    def slopes(self, evidence: Tensor, back: Tensor) -> Tensors:
        """What the parameters of the readers take of the slopes (T, B, K) of the concept logits."""
        return dict(zip(self.names, torch.autograd.grad(evidence, self.leaves, back), strict=True))


class Judge:
    """Validation: what the trials say of it, their temperatures, and the best of each."""

    def __init__(
        self, session: Session, encoder: Encoder, packed: Tensor, rows: Indices, whole: Taught, shared: Tensors
    ) -> None:
        self.encoder, self.packed, self.whole, self.shared = encoder, packed, whole, shared
        self.rows = torch.from_numpy(rows)
        self.examples, self.concepts = session.source.examples, session.blueprint.concepts
        self.classes, self.val = len(session.blueprint.classes), session.splits.val
        self.truth = torch.from_numpy(self.examples.concepts[self.val].astype(np.int64)).to(packed.device)
        self.decoded = Decoded(encoder, packed[self.places(self.val)])

    def places(self, indices: Indices) -> Tensor:
        """Where images lie in `packed`."""
        return self.rows[torch.from_numpy(indices)].to(self.packed.device)

    @torch.no_grad()
    def say(self, decoded: Decoded, parameters: Tensors, own: Tensors, batch: int = 128) -> tuple[Tensor, Tensor]:
        """Class logits (T, N, C) and calibrated concept logits (T, N, K)."""
        self.whole.eval()
        parts = []
        for piece in torch.arange(len(decoded.parts[0]), device=self.packed.device).split(batch):
            tokens = decoded.of(piece)

            def ask(learned: Tensors, mine: Tensors, tokens: Any = tokens) -> tuple[Tensor, Tensor]:
                found: tuple[Tensor, Tensor] = functional_call(
                    self.whole, {**self.shared, **learned, **mine}, (tokens, None, None)
                )
                return found

            parts.append(vmap(ask)(parameters, own))
        return torch.cat([part[0] for part in parts], 1), torch.cat([part[1] for part in parts], 1)

    def validate(self, trials: list[Trial], due: list[int], epoch: int, parameters: Tensors, own: Tensors) -> None:
        """Judge the trials that stand at the places `due`, and fit their temperatures."""
        theirs, mine = ({name: v[due] for name, v in stack.items()} for stack in (parameters, own))
        logits, scores = self.say(self.decoded, theirs, mine)
        predicted, labels = logits.argmax(-1).cpu().numpy(), self.examples.labels[self.val]
        for place, trial in enumerate(trials):
            value = float(balanced_accuracy(predicted[place], labels, self.classes) or 0.0)
            needed = trial.by_concepts or value >= trial.value
            tie = self.auc(scores[place], self.val) if needed else 0.0
            if trial.by_concepts:
                value, tie = tie, value
            if (value, tie) > (trial.value, trial.tie):
                trial.value, trial.tie, trial.epoch, trial.waited = value, tie, epoch, 0
                trial.weights = {name: v[place].clone() for name, v in {**theirs, **mine}.items()}
            else:
                trial.waited += 1
            patience = trial.recipe.training.patience or 0
            trial.done = epoch >= trial.epochs or 0 < patience <= trial.waited
        name = next((name for name in own if name.endswith("sharpness")), None)
        if name is not None and self.whole.model.bottleneck.calibrate:
            fitted = self.temperatures(scores.double())
            own[name][due] = (mine[name] * fitted.to(mine[name])).clamp(1 / SHARPEST, SHARPEST)

    def auc(self, scores: Tensor, indices: Indices) -> float:
        if not scores.shape[1]:
            return 0.0
        labels, truth = self.examples.labels[indices], self.examples.concepts[indices]
        found = concept_metrics(scores.float().cpu().numpy(), truth, self.concepts, class_labels=labels)
        return float(found["auc"] or 0.0)

    def temperatures(self, scores: Tensor) -> Tensor:
        """`Bottleneck.fit_temperature` for all trials at once: what 1/T of each group is multiplied by, (T, G)."""
        fitted = torch.ones(len(scores), len(self.concepts.groups), dtype=scores.dtype, device=scores.device)
        for place, group in enumerate(self.concepts.groups):
            said = self.truth[:, group.concepts]
            part = scores[:, :, group.concepts]
            if group.kind == "exclusive":
                kept = (said == 1).sum(1) == 1
                part, target = part[:, kept], (said[kept] == 1).to(scores.dtype)
            else:
                known = said >= 0
                part, target = part[:, known].unsqueeze(-1), said[known].to(scores.dtype).unsqueeze(-1)
            if not len(target):
                continue
            low = torch.zeros(len(scores), dtype=scores.dtype, device=scores.device)
            high = torch.full_like(low, SHARPEST)
            for _ in range(40):
                middle = (low + high) / 2
                scaled = middle[:, None, None] * part
                p = scaled.softmax(-1) if part.shape[-1] > 1 else scaled.sigmoid()
                slope = ((p - target) * part).sum((1, 2)) + ONE_IMAGE * (middle - 1)
                low, high = torch.where(slope < 0, middle, low), torch.where(slope < 0, high, middle)
            fitted[:, place] = (low + high) / 2
        return fitted

    def test(self, trial: Trial, indices: Indices, packed: Tensor) -> dict[str, float]:
        """The one look at the test images, of which `packed` is what a store would keep."""
        logits, scores = self.said(trial, Decoded(self.encoder, packed))
        predicted, labels = logits.argmax(-1).cpu().numpy(), self.examples.labels[indices]
        value = float(balanced_accuracy(predicted, labels, self.classes) or 0.0)
        return {"test": value, "test_concept_auc": self.auc(scores, indices)}

    def said(self, trial: Trial, decoded: Decoded) -> tuple[Tensor, Tensor]:
        """Class logits (N, C) and calibrated concept logits (N, K) by a trial's best weights."""
        learned = {name: v[None] for name, v in trial.weights.items() if name.split(".")[-1] not in OWN}
        own = {name: v[None] for name, v in trial.weights.items() if name.split(".")[-1] in OWN}
        logits, scores = self.say(decoded, learned, own)
        return logits[0], scores[0]
