"""The loss of masked autoencoders against `transformers`, and its gradients, where both hide the same patches."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import ViTMAEConfig, ViTMAEForPreTraining

import headtohead as h2h
from headtohead.config.build import make_model
from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataSpec
from headtohead.tasks.masked_image import MaskedImageModelling
from parity.parity import exactly, redraw

CHANNELS, SIDE, PATCH = 3, 12, 2
OVERRIDES = (
    "task=masked_image_modeling", "data=digits", "model=vision_transformer", "model.d_model=24", "model.num_layers=2",
    "model.num_heads=3", "model.decoder_width=16", "model.decoder_layers=2", "model.decoder_heads=4",
    "model.feedforward.multiple=2", "model.norm.eps=1e-12", f"model.patch_size={PATCH}",
    f"model.image_shape=[{CHANNELS},{SIDE},{SIDE}]",
)  # fmt: skip
BLOCK = {
    "mixer.query": "attention.q_proj", "mixer.key": "attention.k_proj", "mixer.value": "attention.v_proj",
    "mixer.output": "attention.o_proj", "wiring.norms.0": "layernorm_before", "wiring.norms.1": "layernorm_after",
    "feedforward.up": "mlp.fc1", "feedforward.down": "mlp.fc2",
}  # fmt: skip


def named() -> dict[str, str]:
    """Return their names by ours."""
    layers = {"stack": "vit.layers", "head.stack": "decoder.decoder_layers"}
    modules = {
        **{f"{our}.blocks.{n}.{a}": f"{their}.{n}.{b}" for our, their in layers.items() for n in (0, 1)
           for a, b in BLOCK.items()},
        "patches.projection": "vit.embeddings.patch_embeddings.projection", "stack.final_norm": "vit.layernorm",
        "head.embed": "decoder.decoder_embed", "head.stack.final_norm": "decoder.decoder_norm",
        "head.pixels": "decoder.decoder_pred",
    }  # fmt: skip
    return {
        **{f"{our}.{kind}": f"{their}.{kind}" for our, their in modules.items() for kind in ("weight", "bias")},
        "class_token.weight": "vit.embeddings.cls_token",
        "head.mask_token": "decoder.mask_token",
        "stack.positions.0.table.weight": "vit.embeddings.position_embeddings",
        "head.stack.positions.0.table.weight": "decoder.decoder_pos_embed",
    }


def as_ours(name: str, theirs: Tensor, like: Tensor) -> Tensor:
    """Return their weight as ours: their values of a patch are in the order of pixels, ours in that of channels."""
    if name.startswith("head.pixels."):
        return theirs.unflatten(0, (PATCH * PATCH, CHANNELS)).transpose(0, 1).reshape(like.shape)
    return theirs.reshape(like.shape)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("rate", [0.75, 0.5])
def test_equal_masks_give_the_loss_and_the_gradients_of_the_reference(rate: float, normalise: bool) -> None:
    config = ViTMAEConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=48, image_size=SIDE,
        patch_size=PATCH, decoder_hidden_size=16, decoder_num_hidden_layers=2, decoder_num_attention_heads=4,
        decoder_intermediate_size=32, mask_ratio=rate, norm_pix_loss=normalise, attn_implementation="eager",
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(3, CHANNELS, SIDE, SIDE, generator=generator, dtype=torch.float64)
    noise = torch.rand(3, (SIDE // PATCH) ** 2, generator=generator, dtype=torch.float64)
    with exactly(torch.float64):
        theirs = ViTMAEForPreTraining(config).eval().double()
        ours = make_model(h2h.compose("train", list(OVERRIDES))).eval().double()
        redraw(theirs)
        names, there = named(), dict(theirs.named_parameters())
        own = dict(ours.named_parameters())
        assert own.keys() == names.keys()
        assert set(names.values()) == there.keys()
        with torch.no_grad():
            for name, weight in own.items():
                weight.copy_(as_ours(name, there[names[name]], weight))
        task = MaskedImageModelling(patch_size=PATCH, mask_rate=rate, normalise_targets=normalise)
        task.bind(DataSpec(kind="images", image_shape=(CHANNELS, SIDE, SIDE)))
        loss = task.loss(ours, task.with_hidden(Batch(torch.arange(3), images=images), noise)).mean
        expected = theirs(images, noise=noise).loss
        loss.backward()
        expected.backward()
    assert abs(loss.item() - expected.item()) < 1e-10
    for name, weight in own.items():
        reference = there[names[name]].grad
        if reference is None:  # its positions are waves that do not learn
            assert "position" in name
            continue
        assert weight.grad is not None
        assert (weight.grad - as_ours(name, reference, weight)).abs().max() < 1e-10, name
