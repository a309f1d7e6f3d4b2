"""Memory of a training step of a large encoder, counted without a GPU: sizes are real, numbers are not computed.

    python bench/training_memory.py [--encoder timm/vit_large_patch14_clip_224] [--batch 64] [--json FILE]

Two steps of AdamW in bf16 with LoRA on all blocks and with the last two blocks, each with and without checkpointing, on
tensors that have shapes and no content. Every storage counts from the operation that makes it until it is freed. What a
GPU needs beside that (its libraries, an allocator's gaps) is not in the numbers; `bench/gpu_scale.py --memory` measures
on one. LoRA needs peft.
"""

import argparse
import copy
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from conceptlens.core.files import write_json
from conceptlens.encoders import make_encoder
from conceptlens.encoders.adapters import add_lora, checkpoint_blocks
from conceptlens.encoders.contract import Encoder
from conceptlens.encoders.freezing import set_trainable
from conceptlens.recipes.schema import EncoderConfig


class Peak(TorchDispatchMode):
    """Bytes of all storages that are alive, and the most there were."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._alive: set[int] = set()

    def add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if (key := storage._cdata) not in self._alive:
            self._alive.add(key)
            self.now += storage.nbytes()
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._drop, key, storage.nbytes())

    def _drop(self, key: int, size: int) -> None:
        self._alive.discard(key)
        self.now -= size

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, Tensor):
                self.add(value)
        return result


def hollow(encoder: Encoder) -> FakeTensorMode:
    """Take the content from an encoder's tensors."""
    mode = FakeTensorMode()
    for module in encoder.modules():
        for name, value in module._parameters.items():
            if value is not None:
                module._parameters[name] = nn.Parameter(mode.from_tensor(value.data), value.requires_grad)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = mode.from_tensor(buffer)
    return mode


def measure(whole: Encoder, train: Any, rank: int, saving: bool, batch: int) -> dict[str, Any]:
    encoder = copy.deepcopy(whole).train()
    set_trainable(encoder, train)
    if rank:
        add_lora(encoder, train, rank)
    if saving:
        checkpoint_blocks(encoder)
    with hollow(encoder):
        learning = [value for value in encoder.parameters() if value.requires_grad]
        optimizer = torch.optim.AdamW(learning, 1e-4)
        images = torch.rand(batch, 3, encoder.image_size, encoder.image_size)
        peak = Peak()
        for tensor in (*encoder.parameters(), *encoder.buffers(), images):
            peak.add(tensor)
        weights = peak.now
        with peak:
            for _ in range(2):
                with torch.autocast("cpu", torch.bfloat16):
                    loss = encoder(images).patches.float().square().mean()
                loss.backward()
                del loss
                optimizer.step()
                optimizer.zero_grad()
    learnt = sum(map(torch.numel, learning))
    return {"checkpointing": saving, "weights_gb": weights / 1e9, "gigabytes": peak.most / 1e9, "learning": learnt}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="timm/vit_large_patch14_clip_224")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    whole, rows = make_encoder(EncoderConfig(name=args.encoder, pretrained=False)), []
    for way, train, rank in (("LoRA of rank 8, all blocks", "all", 8), ("last two blocks", 2, 0)):
        for saving in (False, True):
            rows.append({"way": way, **measure(whole, train, rank, saving, args.batch)})
            print(rows[-1], flush=True)
    if args.json:
        write_json(args.json, {"encoder": args.encoder, "batch": args.batch, "torch": torch.__version__, "rows": rows})


if __name__ == "__main__":
    main()
