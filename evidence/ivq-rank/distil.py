"""Three starts for the rank experiment: the built-in ViT's network, distilled alike but for what is asked of patches.

`learning.py` calls it. The teacher is EfficientNet-Lite0 (ImageNet), no loss of which ever drove patches apart; the
images are the training splits of all four sets, without any label. Losses and weights are those of `builtin/vit`
(pretraining/student/heads.py) as far as one teacher and no labels allow:

patches        image vector, patches and the likeness of all pairs of patches
decorrelated   the same and the variance-covariance term on patches, with the weight that `builtin/vit` had
class token    the image vector alone, as in a CLIP: nothing is asked of patches

All three see the same views in the same order. One that reaches its time limit stops early, and its row says at which
step. The weights are not shipped.
"""

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from conceptlens.encoders.builtin.efficientnet_lite0 import EfficientNetLite0
from conceptlens.encoders.builtin.vit import BuiltinViT
from conceptlens.stats.rank import patch_ranks
from pretraining.student.heads import WEIGHTS
from pretraining.student.losses import direction_loss, diversity_loss, grid_to_patches, relation_loss
from pretraining.student.views import ViewStyle, draw_views, render, whole_views

STARTS = {
    "patches": ("feature", "patch", "relation"),
    "decorrelated": ("feature", "patch", "relation", "diversity"),
    "class token": ("feature",),
}
STEPS, BATCH, RATE, WARMUP, COMPONENTS, SIDE = 3000, 256, 1.0e-3, 200, 128, 128
TEACHER, STUDENT = 224, 112  # pixels


class Teacher(nn.Module):
    """What the student learns of a view: the direction of the standardized image vector, components of the map."""

    def __init__(self, images: Tensor) -> None:
        super().__init__()
        self.network = EfficientNetLite0().to(images.device).eval().requires_grad_(False)
        self.mean, self.spread, self.basis, self.center = self._statistics(images)

    def maps(self, views: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad(), torch.autocast(views.device.type, torch.bfloat16, enabled=views.is_cuda):
            tokens = self.network(views)
        assert tokens.cls is not None
        return tokens.cls.float(), tokens.patches.float()

    def _statistics(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        some = images[:: max(1, len(images) // 2048)]
        whole = [self.maps(render(part, whole_views(len(part), images.device), TEACHER)) for part in some.split(BATCH)]
        pooled, patches = torch.cat([one for one, _ in whole]), torch.cat([each.flatten(0, 1) for _, each in whole])
        center = patches.mean(0)
        rest = patches - center
        _, vectors = torch.linalg.eigh((rest.T @ rest / len(rest)).double())
        return pooled.mean(0), pooled.std(0) + 1e-3, vectors[:, -COMPONENTS:].float(), center

    def forward(self, views: Tensor) -> tuple[Tensor, Tensor]:
        """(B, 1280) and (B, 49, 128)."""
        pooled, patches = self.maps(views)
        return (pooled - self.mean) / self.spread, (patches - self.center) @ self.basis


def terms_of(start: str, student: BuiltinViT, heads: nn.ModuleDict, views: Tensor, asked: tuple[Tensor, Tensor]) -> Any:
    """Every term of the loss, unweighted."""
    tokens = student(views)
    assert tokens.cls is not None
    pooled, patches = asked
    side = math.isqrt(patches.shape[1])
    grid = grid_to_patches(patches.transpose(1, 2).unflatten(2, (side, side)), tokens.grid)
    terms = {"feature": direction_loss(heads["feature"](tokens.cls), pooled)}
    if "patch" in STARTS[start]:
        terms["patch"] = direction_loss(heads["patch"](tokens.patches), grid)
        terms["relation"] = relation_loss(tokens.patches, grid)
    if "diversity" in STARTS[start]:
        terms["diversity"] = diversity_loss(tokens.patches[:, ::7])
    return terms


def distil(start: str, pixels: list[Path], rows: list[list[int]], out: Path, steps: int, seconds: float) -> Any:
    """Train one start and write its encoder; says how far it came.

    Args:
        start: One of STARTS.
        pixels: Arrays (N, 3, 128, 128) of bytes, one a data set.
        rows: Training images of each.
        out: The weights.
        steps: How many; fewer only if the time ends.
        seconds: At most.
    """
    began = time.time()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    parts = [np.load(file, mmap_mode="r")[chosen] for file, chosen in zip(pixels, rows, strict=True)]
    images = torch.from_numpy(np.concatenate(parts)).to(device)
    teacher = Teacher(images)
    torch.manual_seed(0)
    student = BuiltinViT(pretrained=False, final_norm=True).to(device).train()
    heads = nn.ModuleDict({"feature": nn.Linear(student.width, 1280), "patch": nn.Linear(student.width, COMPONENTS)})
    heads = heads.to(device)
    learning = [*student.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(learning, lr=RATE, weight_decay=0.05, betas=(0.9, 0.98))
    generator = torch.Generator(device).manual_seed(0)
    curve, done = [], 0
    for step in range(steps):
        share = min(1.0, (step + 1) / WARMUP) * (0.02 + 0.98 * (1 + math.cos(math.pi * step / steps)) / 2)
        optimizer.param_groups[0]["lr"] = RATE * share
        batch = images[torch.randint(len(images), (min(BATCH, len(images)),), generator=generator, device=device)]
        maps = draw_views(len(batch), ViewStyle(), generator)
        asked = teacher(render(batch, maps, TEACHER))
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            terms = terms_of(start, student, heads, render(batch, maps, STUDENT), asked)
            total = torch.stack([WEIGHTS[name] * value.float() for name, value in terms.items()]).sum()
        total.backward()
        torch.nn.utils.clip_grad_norm_(learning, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        done = step + 1
        if done % max(1, steps // 20) == 0 or done == steps:
            ranks = _ranks(student, images)
            curve.append([done, *(round(float(value.detach()), 4) for value in terms.values()), *ranks])
            if time.time() - began > seconds:
                break
    weights = {name: value.detach().half().float().cpu().contiguous() for name, value in student.state_dict().items()}
    save_file(weights, out.with_suffix(".part"))
    out.with_suffix(".part").rename(out)
    names = [*terms, "published", "effective"]
    return {"images": len(images), "steps": done, "terms": names, "curve": curve}


def _ranks(student: BuiltinViT, images: Tensor) -> list[float]:
    """Published and effective rank of 64 whole images, of patches as a recipe reads them: before the last norm."""
    some = images[:: max(1, len(images) // 64)][:64]
    student.eval()
    student.final_norm = False
    with torch.no_grad():
        patches = student(render(some, whole_views(len(some), images.device), STUDENT)).patches
    student.final_norm = True
    student.train()
    found = patch_ranks(patches.float(), ("published", "effective"))
    return [round(float(values.mean()), 2) for values in found.values()]
