"""The networks whose features and words the built-in encoder learns from.

>>> teacher = load_teacher("resnet50", folder)        # eval mode, float32; `.half()` and autocast work
>>> output = teacher(images)                          # RGB in [0, 1], any size -> logits, pooled, grid
>>> vectors = load_minilm(folder).embed(["a puppy"])  # unit vectors
"""

from pathlib import Path
from typing import Any

from conceptlens.core.errors import unknown_name
from pretraining.teachers.contract import Teacher, TeacherOutput
from pretraining.teachers.efficientnet_lite0 import EfficientNetLite0
from pretraining.teachers.minilm import MiniLM, load_minilm
from pretraining.teachers.mobile_sam import MobileSam
from pretraining.teachers.resnet50 import ResNet50
from pretraining.teachers.weights import fill, read_weights

TEACHERS: dict[str, type[Teacher]] = {teacher.name: teacher for teacher in (ResNet50, EfficientNetLite0, MobileSam)}

__all__ = ["TEACHERS", "MiniLM", "Teacher", "TeacherOutput", "load_minilm", "load_teacher"]


def load_teacher(name: str, folder: str | Path, **options: Any) -> Teacher:
    """A teacher at rest: eval mode, no gradients, float32.

    Args:
        name: One of `TEACHERS`.
        folder: Holds `NAME.safetensors`, as `python -m pretraining.teachers.convert` writes it.
        **options: To the teacher's class: `size` for all, `grid_stage` for the ResNet.
    """
    if name not in TEACHERS:
        raise unknown_name("teacher", name, TEACHERS)
    path = Path(folder) / f"{name}.safetensors"
    weights = read_weights(path)
    teacher = TEACHERS[name](**options)
    fill(teacher, weights, path)
    return teacher
