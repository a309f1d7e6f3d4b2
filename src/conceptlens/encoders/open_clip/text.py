"""`open_clip/…` as a text encoder: the text tower of a CLIP, whose vectors lie in the image tower's space."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.core.network import is_offline
from conceptlens.encoders.open_clip.files import open_clip, resolve
from conceptlens.encoders.open_clip.towers import build_text_tower, load_tower, need_transformers
from conceptlens.encoders.text.check import check_texts

BATCH = 64


class OpenClipText:
    """Phrases to unit vectors in the joint space; a text beyond the tower's length is cut.

    Args:
        name: `open_clip/MODEL/TAG`, `open_clip/hf-hub:…` or `open_clip/local-dir:…`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        model = resolve(name)
        text = model.model["text_cfg"]
        if text.get("hf_tokenizer_name") or text.get("hf_model_name"):
            need_transformers(model)
        weights = model.weights()
        with torch.random.fork_rng(devices=[]):  # a start that is overwritten must not use up the caller's numbers
            self.tower = build_text_tower(model).eval()
        load_tower(self.tower, model, weights, "text", name)
        safe = {"trust_remote_code": False, "local_files_only": is_offline()}
        remote = safe if text.get("hf_tokenizer_name") else {}
        try:
            self.tokenizer = open_clip().get_tokenizer(model.plain, **remote)
        except Exception as error:  # files that are missing or damaged, a hub out of reach: many kinds, one remedy
            problem = (str(error).strip() or type(error).__name__).splitlines()[0]
            where = model.folder or f"{text.get('hf_tokenizer_name') or model.plain} on the hub"
            raise UserError(
                f"{name}: expected its tokenizer from {where}, but {problem}. "
                "Put tokenizer.json and tokenizer_config.json beside the weights and name the folder with local-dir:."
            ) from None
        self.width = int(model.model["embed_dim"])

    @torch.no_grad()
    def embed(self, texts: Sequence[str]) -> Tensor:
        """(n, width), unit length, fp32, on the CPU."""
        check_texts(self.name, texts)
        vectors = torch.empty(len(texts), self.width)
        for start in range(0, len(texts), BATCH):
            numbers = self.tokenizer(list(texts[start : start + BATCH]))
            vectors[start : start + BATCH] = F.normalize(self.tower(numbers).float(), dim=-1)
        return vectors
