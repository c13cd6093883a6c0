"""Decoders without an encoding of positions, whose recurrent layers know the order of tokens."""

from __future__ import annotations

from collections.abc import Iterator

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.decoder_family import DecoderFamily
from headtohead.pretrained.model_description import Describable, Model
from headtohead.pretrained.model_family import Hub, HubConfig


class WithoutPositions(DecoderFamily):
    """A decoder whose order comes from its recurrent layers alone."""

    def position_overrides(self, hub: Hub) -> list[str]:
        del hub
        return ["model/position=none"]

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del hub, head
        return iter(())

    def position_config(self, model: Model) -> HubConfig:
        del model
        return {}

    def words(self, model: Model) -> Describable:
        return {**super().words(model), "position": ("NoPosition",)}
