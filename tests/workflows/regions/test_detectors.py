"""Grounding DINO and OWLv2 of transformers, small and with random weights in the files of a real one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from conceptlens.api import detect_concepts
from conceptlens.core.errors import UserError
from conceptlens.workflows.regions.detectors import open_detector

transformers = pytest.importorskip("transformers", minversion="5")
LABELS = ["red beak", "long tail", "webbed feet"]
SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def grounding_dino(folder: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", *" ".join(LABELS).split()]
    (folder / "vocab.txt").write_text("\n".join(words))
    depths = {"embed_dim": 16, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 2, 2], "window_size": 4, "image_size": 64}
    backbone = transformers.SwinConfig(**depths, out_features=["stage2", "stage3", "stage4"])
    sizes = dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "d_model", "max_text_len"), 32)
    heads = dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "encoder_layers"), 2)
    config = transformers.GroundingDinoConfig(
        backbone_config=backbone,
        text_config=transformers.BertConfig(vocab_size=len(words), **SMALL),
        decoder_layers=2,
        num_queries=20,
        **sizes,
        **heads,
    )
    transformers.GroundingDinoForObjectDetection(config).eval().save_pretrained(folder)
    images = transformers.GroundingDinoImageProcessor(size={"shortest_edge": 64, "longest_edge": 96})
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    transformers.GroundingDinoProcessor(images, tokenizer).save_pretrained(folder)


def owlv2(folder: Path) -> None:
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    last = len(pieces) - 1
    text = {**SMALL, "vocab_size": len(pieces), "max_position_embeddings": 16}
    text |= {"bos_token_id": last - 1, "eos_token_id": last, "pad_token_id": last}
    config = transformers.Owlv2Config(
        text_config=text, vision_config={**SMALL, "image_size": 64, "patch_size": 16}, projection_dim=32
    )
    transformers.Owlv2ForObjectDetection(config).eval().save_pretrained(folder)
    images = transformers.Owlv2ImageProcessor(size={"height": 64, "width": 64})
    tokenizer = transformers.CLIPTokenizerFast.from_pretrained(folder, model_max_length=16)
    transformers.Owlv2Processor(images, tokenizer).save_pretrained(folder)


def best_confidence(folder: Path, kind: str, image: Image.Image, label: str) -> float:
    """By the model's own forward: the highest probability of a query, over the tokens of the phrase."""
    words = [[label]] if kind == "Owlv2" else f"{label}."
    processor = getattr(transformers, f"{kind}Processor").from_pretrained(folder)
    model = getattr(transformers, f"{kind}ForObjectDetection").from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(**processor(images=image, text=words, return_tensors="pt")).logits
    return float(logits.sigmoid().max())


KINDS: dict[str, Callable[[Path], None]] = {"GroundingDino": grounding_dino, "Owlv2": owlv2}


@pytest.mark.parametrize("kind", KINDS)
def test_a_detector_in_its_published_files(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    folder = tmp_path / "model"
    folder.mkdir()
    KINDS[kind](folder)
    pixels = np.random.default_rng(10).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    image = Image.fromarray(pixels)  # of other noise OWLv2, with these weights, finds the most in the padding
    detect = open_detector(str(folder), least=0.0)
    found = detect(image, LABELS)
    assert {box.label for box in found} == set(LABELS)
    for box in found:
        left, top, right, bottom = box.box
        assert 0 <= left < right <= 80
        assert 0 <= top < bottom <= 60
    alone = detect(image, LABELS[:1])
    best = best_confidence(folder, kind, image, LABELS[0])
    assert best - 1e-4 <= max(box.confidence for box in alone) <= best + 1e-4

    image.save(tmp_path / "bird.png")
    (tmp_path / "images.csv").write_text("image,class\nbird.png,a\n")
    (tmp_path / "words.txt").write_text("\n".join(LABELS))
    words: dict[str, Any] = {"concepts": tmp_path / "words.txt", "out": tmp_path / "out", "detector": str(folder)}
    seen = detect_concepts(tmp_path / "images.csv", **words, threshold=0.0)
    assert seen.images == 1
    assert seen.boxes == len(LABELS)  # the most confident of each


def test_what_is_no_detector_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot open it"):
        open_detector(str(tmp_path), least=0.1)
