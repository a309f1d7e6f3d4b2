"""The two stages of training, one step at a time; every draw follows from the seed and the step's number."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from conceptlens.cortex.generators.builtin.autoencoder import Discriminator
from conceptlens.cortex.generators.builtin.generator import SmallGenerator
from conceptlens.cortex.generators.builtin.losses import (
    Perceptual,
    adversarial_weight,
    discriminator_loss,
    generator_loss,
    masked_token_loss,
    reconstruction,
)
from conceptlens.cortex.generators.builtin.transformer import forget
from pretraining.generator.data import Labeled, turned
from pretraining.generator.settings import Settings


def mixed(device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


class Average:
    """A running mean of a module's weights: what is exported."""

    def __init__(self, module: nn.Module, rate: float) -> None:
        self.rate = rate
        self.values = {name: value.detach().clone() for name, value in module.named_parameters()}

    @torch.no_grad()
    def update(self, module: nn.Module, step: int) -> None:
        rate = min(self.rate, (step + 1) / (step + 10))  # a young mean follows quickly
        torch._foreach_lerp_(list(self.values.values()), [*module.parameters()], 1 - rate)

    @torch.no_grad()
    def put_into(self, module: nn.Module) -> None:
        for name, value in module.named_parameters():
            value.copy_(self.values[name])


class AutoencoderStage:
    """VQ-GAN: pixels, perception, commitment, and from some step on a discriminator."""

    name = "autoencoder"

    def __init__(
        self, model: SmallGenerator, perceptual: Perceptual, data: Labeled, weights: Tensor, settings: Settings
    ) -> None:
        self.settings, self.stage = settings, settings.autoencoder
        self.learner = nn.ModuleDict({"painter": model.autoencoder, "discriminator": Discriminator()})
        self.device = model.codebook.device
        # What GPUs convolve in half precision without turning it around first.
        self.format = torch.channels_last if self.device.type == "cuda" else torch.contiguous_format
        self.learner.to(self.device).to(memory_format=self.format)
        self.painter, self.perceptual = model.autoencoder, perceptual
        self.average = Average(self.painter, settings.average)
        self.images, self.weights = data.images.to(self.device), weights  # 50 kB an image
        self.optimizer = torch.optim.AdamW(
            self.learner.parameters(),
            lr=self.stage.rate,
            betas=(0.5, 0.95),
            weight_decay=1e-4,
            fused=self.device.type == "cuda",
        )

    def batch(self, step: int) -> Tensor:
        generator = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + step)
        rows = torch.multinomial(self.weights, self.stage.batch, replacement=True, generator=generator)
        turn = torch.randint(8, (self.stage.batch,), generator=generator)
        images = self.images[rows.to(self.device)].float().div_(255)
        return turned(images, turn.to(self.device)).contiguous(memory_format=self.format)

    def learn(self, step: int) -> dict[str, Tensor]:
        torch.manual_seed(self.settings.seed * 1_000_003 + step)  # revived codes
        images, stage = self.batch(step), self.stage
        discriminator = self.learner["discriminator"]
        self.learner.train()
        self.optimizer.zero_grad(set_to_none=True)
        discriminator.requires_grad_(False)
        with mixed(self.device):
            painted, quantized = self.painter(images)
            pixels = reconstruction(painted.float(), images)
            seen = self.perceptual(painted, images)
        wanted = stage.pixels * pixels + stage.perceptual * seen
        loss = wanted + stage.commitment * quantized.commitment
        terms = {"pixels": pixels, "perceptual": seen, "commitment": quantized.commitment}
        adversary = step >= stage.adversary_from
        if adversary:
            with mixed(self.device):
                fooled = generator_loss(discriminator(painted).float())
            balance = adversarial_weight(wanted, fooled, self.painter.last_layer)
            loss = loss + stage.adversarial * balance * fooled
            terms |= {"fooled": fooled, "balance": balance}
        loss.backward()
        discriminator.requires_grad_(True)
        if adversary:
            with mixed(self.device):
                judged = discriminator_loss(discriminator(images).float(), discriminator(painted.detach()).float())
            judged.backward()  # type: ignore[no-untyped-call]
            terms["discriminator"] = judged
        torch.nn.utils.clip_grad_norm_(self.learner.parameters(), 2.0)
        self.optimizer.step()
        self.average.update(self.painter, step)
        used = torch.bincount(quantized.tokens.flatten(), minlength=len(self.painter.quantizer.codebook)) > 0
        return {name: value.detach() for name, value in terms.items()} | {"use": used.float().mean()}


class TransformerStage:
    """Masked tokens of the finished autoencoder, under conditions of which a random part is left out."""

    name = "transformer"

    def __init__(self, model: SmallGenerator, data: Labeled, weights: Tensor, settings: Settings) -> None:
        self.settings, self.stage = settings, settings.transformer
        self.model, self.learner = model, model.transformer
        self.device = model.codebook.device
        self.average = Average(self.learner, settings.average)
        self.tokens = encode_all(model, data.images, self.device)  # (N, 8, L)
        self.conditions, self.weights = data.conditions.to(self.device), weights.to(self.device)
        decayed = [value for value in self.learner.parameters() if value.ndim > 1]
        others = [value for value in self.learner.parameters() if value.ndim <= 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}],
            lr=self.stage.rate,
            betas=(0.9, 0.96),
            fused=self.device.type == "cuda",
        )

    def learn(self, step: int) -> dict[str, Tensor]:
        # All draws where the model is: a GPU that waits for a handful of numbers stands still.
        own = torch.Generator(self.device).manual_seed(self.settings.seed * 1_000_003 + step)
        batch = self.stage.batch
        rows = torch.multinomial(self.weights, batch, replacement=True, generator=own)
        turn = torch.randint(8, (batch,), generator=own, device=self.device)
        share = torch.cos(torch.rand(batch, 1, generator=own, device=self.device) * torch.pi / 2)
        masked = torch.rand(batch, self.tokens.shape[2], generator=own, device=self.device) < share
        masked[:, 0] |= ~masked.any(1)
        tokens = self.tokens[rows, turn].long()
        conditions = forget(self.conditions[rows], own, null=self.stage.null)
        self.learner.train()
        with mixed(self.device):
            logits = self.learner(tokens, masked, conditions, self.model.codebook)
        loss = masked_token_loss(logits, tokens, masked)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.learner.parameters(), 1.0)
        self.optimizer.step()
        self.average.update(self.learner, step)
        right = ((logits.argmax(-1) == tokens) & masked).sum() / masked.sum()
        return {"loss": loss.detach(), "right": right}


@torch.no_grad()
def encode_all(model: SmallGenerator, images: Tensor, device: torch.device, batch: int = 256) -> Tensor:
    """Tokens (N, 8, L) of every image in its eight positions, as 16-bit ids."""

    def parts() -> Iterator[Tensor]:
        for some in torch.split(images, batch):
            values = some.to(device).float().div_(255)
            views = [turned(values, torch.full((len(values),), kind, device=device)) for kind in range(8)]
            yield torch.stack([model.encode(view).flatten(1).to(torch.int16) for view in views], 1)

    model.eval()
    return torch.cat(list(parts()))
