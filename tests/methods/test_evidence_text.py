"""evidence-cbm-text: patch-text similarities that add up, against a loop; what the encoder's map does to a patch."""

import pytest
import torch
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.builtin.vit import BuiltinViT
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import PATCH_VECTORS
from conceptlens.methods.evidence_text import EvidenceText
from conceptlens.nn.setup import Setup
from conceptlens.testing import build, images


def tokens() -> Tokens:
    torch.manual_seed(3)
    vectors = F.normalize(torch.randn(2, 9, 6), dim=-1)
    return Tokens(torch.randn(2, 9, 8), (3, 3), torch.randn(2, 8), aux={PATCH_VECTORS: vectors})


@pytest.mark.parametrize("attention", ["group", "uniform"])
def test_evidence_is_similarity_with_the_text_less_its_groups_mean(setup: Setup, attention: str) -> None:
    model = EvidenceText(setup, attention=attention, logit_scale=20.0).eval()  # type: ignore[arg-type]
    if attention == "group":
        torch.nn.init.normal_(model.reader.queries)
    given, concepts = tokens(), setup.concepts
    model.prepare([given], concepts)
    output = model(given)
    assert output.evidence is not None
    raw = torch.zeros(2, len(concepts), 9, dtype=torch.float64)
    for k, concept in enumerate(concepts.concepts):
        group = next(group for group in concepts.groups if group.name == concept.group)
        text = setup.text[k].double()
        if group.kind == "exclusive":
            text = text - setup.text[group.concepts].double().mean(0)
        for image in range(2):
            query = model.reader.queries[concepts.group_of[k]].double()
            weights = (F.layer_norm(given.patches[image], (8,)).double() @ query).softmax(0)
            for patch in range(9):
                raw[image, k, patch] = 20 * weights[patch] * (given.aux[PATCH_VECTORS][image, patch].double() @ text)
    torch.testing.assert_close(output.evidence.double(), raw.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(output.evidence.sum(-1) + output.unplaced, output.concept_logits, rtol=1e-5, atol=1e-5)
    # What the images of `prepare` score on average is taken away.
    torch.testing.assert_close(output.concept_logits.mean(0), torch.zeros(len(concepts)), rtol=0, atol=1e-4)


def test_only_attention_and_head_learn_and_only_from_the_class(setup: Setup) -> None:
    assert EvidenceText.supervision == "text"
    learns = {name for name, value in EvidenceText(setup).named_parameters() if value.requires_grad}
    assert learns == {"reader.queries", "head.weight", "head.bias"}
    learns = {
        name for name, value in EvidenceText(setup, attention="uniform").named_parameters() if value.requires_grad
    }
    assert learns == {"head.weight", "head.bias"}


def test_another_text_tower_is_refused(setup: Setup) -> None:
    wide = Setup(setup.concepts, torch.randn(len(setup.concepts), 7), 8, 2)
    with pytest.raises(UserError, match=r"width 7, the image's \d+: .*Use `encoder\.text: auto`"):
        EvidenceText(wide)(tokens())
    with pytest.raises(UserError, match="logit_scale"):
        EvidenceText(setup, logit_scale=0.0)


@pytest.mark.parametrize("final_norm", [False, True])
def test_the_builtin_encoder_maps_a_patch_as_it_maps_the_class_token(final_norm: bool) -> None:
    torch.manual_seed(0)
    small = {"image_size": 16, "width": 8, "depth": 1, "heads": 2, "stem_width": 4, "text_width": 5}
    encoder = BuiltinViT(**small, final_norm=final_norm, name="builtin/small").eval()  # type: ignore[arg-type]
    given = encoder(torch.rand(2, 3, 16, 16))
    normal = given.patches if final_norm else encoder.norm(given.patches)
    found = encoder.embed_patches(given)
    assert found.shape == (2, 4, 5)
    torch.testing.assert_close(found[1, 2], F.normalize(encoder.to_text(normal[1, 2]), dim=-1))
    with pytest.raises(UserError, match="no text tower"):
        BuiltinViT(**{**small, "text_width": 0}, name="builtin/small").embed_patches(given)  # type: ignore[arg-type]


def test_the_pipeline_hands_it_the_patches_in_the_text_space() -> None:
    pipeline = build("evidence-cbm-text")
    given = pipeline.encoder(images())
    aux = pipeline.with_text_space(given).aux[PATCH_VECTORS]
    torch.testing.assert_close(aux, pipeline.encoder.embed_patches(given))
    torch.testing.assert_close(
        pipeline(images()).concept_logits.mean(0), torch.zeros(len(pipeline.model.concept_slot)), rtol=0, atol=1e-3
    )
