"""Encoders by name, and what a misspelled name or option is told."""

import subprocess
import sys

import pytest

from conceptlens.core.errors import UserError
from conceptlens.encoders import list_encoders, make_encoder, make_text_encoder
from conceptlens.encoders.builtin.vit import BuiltinViT
from conceptlens.encoders.timm.encoder import TimmEncoder
from conceptlens.recipes.schema import EncoderConfig


def test_the_recipe_s_keys_arrive() -> None:
    config = EncoderConfig(
        image_size=64, layers=[-2], final_norm=True, pretrained=False, options={"depth": 3, "registers": 2}
    )
    encoder = make_encoder(config)
    assert isinstance(encoder, BuiltinViT)
    assert (encoder.image_size, encoder.layers, encoder.final_norm) == (64, (1,), True)
    assert (len(encoder.blocks()), encoder.registers.shape[1]) == (3, 2)


def test_timm_by_name() -> None:
    config = EncoderConfig(
        name="timm/test_vit", image_size=64, layers=[0], pretrained=False, options={"drop_path_rate": 0.1}
    )
    encoder = make_encoder(config)
    assert isinstance(encoder, TimmEncoder)
    assert (encoder.image_size, encoder.layers, encoder.name) == (64, (0,), "timm/test_vit")


def test_text_by_name() -> None:
    assert make_text_encoder("builtin/hashed-text").width == 256
    with pytest.raises(UserError, match="Did you mean 'builtin/text'"):
        make_text_encoder("builtin/txt")


def test_listing() -> None:
    assert list_encoders("builtin/*") == ["builtin/vit", "builtin/efficientnet-lite0", "builtin/vit-mini"]
    assert "timm/test_vit" in list_encoders("timm/test_*")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (EncoderConfig(name="builtin/vitt"), "Did you mean 'builtin/vit'"),
        (EncoderConfig(name="test_resnet"), "Did you mean 'timm/test_resnet'"),
        (EncoderConfig(name="timm/vit_smal_patch16_224"), "Did you mean 'timm/vit_small_patch16_224'"),
        (EncoderConfig(options={"dept": 3}), "Did you mean 'depth'"),
        (EncoderConfig(options={"image_size": 64}), "Write `encoder.image_size`"),
        (EncoderConfig(name="timm/test_vit", options={"drop_path_rat": 0.1}), "Did you mean 'drop_path_rate'"),
        (EncoderConfig(name="timm/test_vit", options={"num_classes": 3}), "the head is not used"),
        (EncoderConfig(name="timm/test_vit", image_size=0), "positive whole number, got 0"),
    ],
)
def test_misspelled(config: EncoderConfig, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_encoder(config)


def test_import_needs_no_torch() -> None:
    code = "import sys, conceptlens.encoders; assert not {'torch', 'timm'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
