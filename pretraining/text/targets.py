"""The teacher's vectors of many phrases."""

from collections.abc import Sequence

import torch
from torch import Tensor

from conceptlens.encoders.text.wordpiece import WordPiece
from pretraining.teachers import MiniLM
from pretraining.text.batches import embed_rows, encode_rows

LONGEST = 96  # pieces; no phrase of the corpus is longer


def teacher_pieces(teacher: MiniLM) -> list[str]:
    """The teacher's vocabulary in its order."""
    return sorted(teacher.tokenizer.number, key=teacher.tokenizer.number.__getitem__)


@torch.no_grad()
def teacher_vectors(
    teacher: MiniLM, phrases: Sequence[str], device: torch.device, *, batch: int = 16_384, chunk: int = 1024
) -> Tensor:
    """Unit vectors (n, 384) on `device`: fp16 on a GPU, where they are many, fp32 elsewhere."""
    rows = encode_rows(WordPiece(teacher_pieces(teacher)), phrases, longest=LONGEST).to(device)
    teacher = teacher.to(device)
    kept = torch.float16 if device.type == "cuda" else torch.float32
    vectors = []
    with torch.autocast(device.type, torch.float16, enabled=device.type == "cuda"):
        for places in torch.split(torch.arange(len(rows)), batch):
            vectors.append(embed_rows(teacher, rows, places, chunk=chunk).to(kept))
    return torch.cat(vectors)
