"""The masked-token transformer (Chang et al., MaskGIT, 2022): tokens, some of them hidden, and a condition → all.

The condition is a row of tokens before the image's: one for the class and one for each attribute, every one of which
may say "not given". Any subset can be asked for; all of them not given is the null condition.
"""

import torch
from torch import Tensor, nn

from conceptlens.core.errors import unknown_name
from conceptlens.cortex.generators.builtin.settings import GeneratorSettings
from conceptlens.cortex.generators.condition import Condition
from conceptlens.encoders.builtin.transformer_block import Block


class MaskedTransformer(nn.Module):
    """p(token | the others, condition) for each position.

    Tokens are read and written through their codes (K, d), so that the table of K wide vectors need not be learned.
    """

    def __init__(self, settings: GeneratorSettings) -> None:
        super().__init__()
        width, cells = settings.transformer_width, settings.grid[0] * settings.grid[1]
        self.classes = settings.classes
        self.attributes = {name: tuple(values) for name, values in settings.attributes.items()}
        sizes = [len(self.classes), *(len(values) for values in self.attributes.values())]
        starts = torch.tensor([0, *[size + 1 for size in sizes]]).cumsum(0)
        self.register_buffer("starts", starts[:-1], persistent=False)  # the row of "not given" of each axis
        self.starts: Tensor
        self.conditions = nn.Parameter(torch.randn(int(starts[-1]), width) * 0.02)
        self.read = nn.Linear(settings.width, width)
        self.hidden = nn.Parameter(torch.randn(width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, cells, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, settings.heads, 4.0, 0.0) for _ in range(settings.depth))
        self.norm = nn.LayerNorm(width)
        self.write = nn.Linear(width, settings.width)
        self.bias = nn.Parameter(torch.zeros(settings.codes))
        self.log_scale = nn.Parameter(torch.zeros(()))

    @property
    def axes(self) -> int:
        """Class and attributes."""
        return len(self.starts)

    def forward(self, tokens: Tensor, masked: Tensor, conditions: Tensor, codebook: Tensor) -> Tensor:
        """Logits (B, L, K).

        Args:
            tokens: (B, L); what stands where they are masked does not matter.
            masked: (B, L).
            conditions: (B, A) of value indices, −1 for not given; the class first.
            codebook: (K, d), as the autoencoder has it.
        """
        codes = standardized(codebook)
        seen = torch.where(masked[..., None], self.hidden, self.read(codes[tokens])) + self.positions
        asked = self.conditions[self.starts + conditions + 1]
        x = torch.cat([asked.to(seen.dtype), seen], 1)
        for block in self.blocks:
            x = block(x)
        said = self.write(self.norm(x[:, self.axes :]))
        logits: Tensor = self.log_scale.exp() * (said @ codes.T.to(said.dtype)) + self.bias
        return logits

    def indices(self, condition: Condition | None, n: int) -> Tensor:
        """A condition as (n, A) value indices."""
        row = [-1] * self.axes
        if condition is not None:
            if condition.class_name is not None:
                if condition.class_name not in self.classes:
                    raise unknown_name("class", condition.class_name, self.classes)
                row[0] = self.classes.index(condition.class_name)
            names = list(self.attributes)
            for name, value in condition.attributes.items():
                if name not in self.attributes:
                    raise unknown_name("attribute", name, names)
                if value not in self.attributes[name]:
                    raise unknown_name(f"value of {name!r}", value, self.attributes[name])
                row[1 + names.index(name)] = self.attributes[name].index(value)
        return torch.tensor(row, device=self.starts.device).repeat(n, 1)


def standardized(codebook: Tensor) -> Tensor:
    """Codes with mean 0 and deviation 1 over all numbers: what the transformer reads must not depend on their scale."""
    return (codebook - codebook.mean()) / codebook.std().clamp(min=1e-6)


def forget(conditions: Tensor, generator: torch.Generator, *, null: float = 0.1) -> Tensor:
    """Leave out some of the conditions (B, A) of each image, so that every subset is learned.

    A share `null` of the images loses all. Of the others, each keeps the class or not, and each attribute, with a
    probability of its own, drawn from 0 to 1.
    """
    count, axes = conditions.shape
    device = conditions.device
    keep = torch.rand(count, 1, generator=generator, device=device)
    drawn = torch.rand(count, axes, generator=generator, device=device) < keep
    drawn[:, 0] = torch.rand(count, generator=generator, device=device) < 0.7
    gone = torch.rand(count, 1, generator=generator, device=device) < null
    return torch.where(drawn & ~gone, conditions, -1)
