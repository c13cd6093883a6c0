"""Decoders of which some layers have experts and the others a gated feed-forward, or all have the one or the other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from headtohead.components.feedforwards import inner_width
from headtohead.pretrained.decoder_family import DecoderFamily, gated_overrides, gated_pieces
from headtohead.pretrained.layer_kinds import feedforward_paths, repeated_part, shared_fields
from headtohead.pretrained.model_description import Describable, Model, described
from headtohead.pretrained.model_family import Hub, HubConfig, their_activation
from headtohead.pretrained.weight_mapping import WeightMapping

_DENSE = ("swiglu", "DenseFeedForward")


class SparseLayers(DecoderFamily):
    """A decoder whose config.json says which layers have experts; `feedforward` names these."""

    @abstractmethod
    def has_experts(self, hub: Hub, layer: int) -> bool:
        """Return whether this layer has experts."""

    @abstractmethod
    def expert_fields(self, hub: Hub) -> Mapping[str, object]:
        """Return the fields of experts beside those of a gated feed-forward."""

    @abstractmethod
    def expert_pieces(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of a layer's experts and of their router."""

    @abstractmethod
    def expert_width(self, hub: Hub) -> int:
        """Return the inner width of an expert."""

    @abstractmethod
    def config_of_layers(
        self, are_sparse: Sequence[bool], experts: HubConfig, dense_width: int | None, expert_width: int | None
    ) -> HubConfig:
        """Return the fields of config.json for our fields of experts and the inner widths of both feed-forwards; one
        that no layer has is without fields and without a width."""

    def feedforward_overrides(self, hub: Hub) -> list[str]:
        kinds = repeated_part([self.has_experts(hub, layer) for layer in range(hub["num_hidden_layers"])])
        if len(set(kinds)) == 1:
            return self._overrides_of(hub, "feedforward", is_sparse=kinds[0])
        names = {is_sparse: self._choice(is_sparse=is_sparse) for is_sparse in kinds}
        parts = [
            override
            for is_sparse, name in names.items()
            for override in self._overrides_of(hub, f"feedforwards.{name}", is_sparse=is_sparse)
        ]
        return [f"model.feedforward_pattern=[{','.join(names[is_sparse] for is_sparse in kinds)}]", *parts]

    def _choice(self, *, is_sparse: bool) -> str:
        return self.feedforward[0] if is_sparse else _DENSE[0]

    def _overrides_of(self, hub: Hub, slot: str, *, is_sparse: bool) -> list[str]:
        inner = self.expert_width(hub) if is_sparse else hub["intermediate_size"]
        fields = self.expert_fields(hub) if is_sparse else {}
        gated = gated_overrides(hub, self._choice(is_sparse=is_sparse), inner, self.activation(hub), slot=slot)
        return [*gated, *(f"model.{slot}.{name}={value}" for name, value in fields.items())]

    def feedforward_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        return self.expert_pieces(hub, ours, theirs) if self.has_experts(hub, layer) else gated_pieces(ours, theirs)

    def feedforward_config(self, model: Model) -> HubConfig:
        paths = feedforward_paths(model)
        are_sparse = [described(model, path) != _DENSE[1] for path in paths]
        by_kind: dict[bool, list[str]] = {False: [], True: []}
        for is_sparse, path in zip(are_sparse, paths, strict=True):
            by_kind[is_sparse].append(path)
        dense, experts = (shared_fields(model, by_kind[kind], self.model_type) for kind in (False, True))
        widths = [
            inner_width(model["d_model"], node["multiple"], two_thirds=node["two_thirds"]) if node else None
            for node in (dense, experts)
        ]
        activation = {self.activation_field: their_activation((dense or experts)["activation"])}
        return {**activation, **self.config_of_layers(are_sparse, experts, *widths)}

    def feedforward_words(self) -> Describable:
        """Return what this format can express of a feed-forward."""
        return {"": (self.feedforward[1], _DENSE[1]), "gated": (True,), "bias": (False,)}

    def words(self, model: Model) -> Describable:
        paths = list(dict.fromkeys(feedforward_paths(model)))
        words = {path: values for path, values in super().words(model).items() if not path.startswith("feedforward")}
        words |= {
            f"{path}.{field}".rstrip("."): values
            for path in paths
            for field, values in self.feedforward_words().items()
        }
        activation = described(model, f"{paths[0]}.activation")
        words |= {f"{path}.activation": (activation,) for path in paths[1:]}
        return {**words, "feedforward_pattern": (described(model, "feedforward_pattern"),)}
