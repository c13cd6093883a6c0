"""A model of ours in the hub's on-disk format: config.json, model.safetensors, tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.heads import name_of
from headtohead.architectures.replaced_tokens import GENERATOR
from headtohead.data.tokenizers import SPECIAL_TOKENS, Tokenizer, letter_bytes
from headtohead.files.atomic_write import replace_by_name, replace_text
from headtohead.pretrained.model_family import InexpressibleError, ModelFamily
from headtohead.pretrained.weight_mapping import Weights


def write_checkpoint(
    model: Architecture, family: ModelFamily, config: Mapping[str, Any], folder: Path, tokenizer: Tokenizer | None
) -> None:
    """Write the model's weights under the family's names, with this config.json; raise InexpressibleError before
    anything is written."""
    hub, head = family.written(config), name_of(model.head)
    once = {name for name, _ in model.named_parameters()}
    again = {name for name, _ in model.named_parameters(remove_duplicate=False)} - once
    left_out = {name for name in model.state_dict() if name in again or name.startswith(GENERATOR)}
    ours: dict[str, Tensor] = {name: held for name, held in model.state_dict().items() if name not in left_out}
    pieces = [*family.body(hub, head), *family.head_pieces(hub, head)]
    named = {name for piece in pieces for name in piece.ours}
    if apart := sorted(named ^ set(ours)):
        raise InexpressibleError(f"{', '.join(apart[:3])} of this model have no place in {family.model_type}")
    theirs: Weights = {}
    for piece in pieces:
        theirs |= {name: held.detach().cpu().contiguous().clone() for name, held in piece.give(ours).items()}
    kind = str(next(iter(theirs.values())).dtype).removeprefix("torch.")
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "config.json", {**config, **_ids(config, tokenizer), "torch_dtype": kind})
    write_safetensors(theirs, folder / "model.safetensors")
    if tokenizer is not None:
        write_tokenizer(tokenizer, folder)


def write_safetensors(weights: Mapping[str, Tensor], file: Path) -> None:
    """Write weights as other libraries expect those of torch."""
    from safetensors.torch import save_file

    replace_by_name(file, lambda unfinished: save_file(dict(weights), unfinished, metadata={"format": "pt"}))


def _ids(config: Mapping[str, object], tokenizer: Tokenizer | None) -> dict[str, int]:
    """Return the numbers of special tokens; the start token of a target is a separate field there."""
    if tokenizer is None:
        return {}
    special = tokenizer.special
    ids = {"bos_token_id": special.bos, "eos_token_id": special.eos, "pad_token_id": special.pad}
    return ids | ({"decoder_start_token_id": special.bos} if config.get("is_encoder_decoder") else {})


def write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write the tokenizer in the format of the `tokenizers` library, with the names of its special tokens beside it."""
    replace_text(folder / "tokenizer.json", _described(tokenizer))
    special = tokenizer.special
    ids = {"pad": special.pad, "bos": special.bos, "eos": special.eos, "mask": special.mask, "unk": special.unk}
    names = {f"{kind}_token": _spelling(tokenizer, number) for kind, number in ids.items() if number >= 0}
    _write(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **names})


def _spelling(tokenizer: Tokenizer, number: int) -> str:
    if tokenizer.kind != "published":
        return SPECIAL_TOKENS[number]
    from headtohead.data.tokenizers import library_of

    return str(library_of(tokenizer.merges).id_to_token(number))


def _described(tokenizer: Tokenizer) -> str:
    """Describe the tokenizer for the library: characters become words of one letter, and bytes pairs that never
    merge."""
    if tokenizer.merges:
        return tokenizer.merges
    from tokenizers import Regex, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Library

    first = len(SPECIAL_TOKENS)
    specials = {name: number for number, name in enumerate(SPECIAL_TOKENS)}
    if tokenizer.kind == "char":
        signs = {piece.decode(): first + index for index, piece in enumerate(tokenizer.pieces[first:])}
        library = Library(models.WordLevel(vocab={**specials, **signs}, unk_token=SPECIAL_TOKENS[-1]))
        library.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
        library.decoder = decoders.Fuse()
    else:
        letters = {letter: first + value for letter, value in letter_bytes().items()}
        library = Library(models.BPE(vocab={**specials, **letters}, merges=[]))
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        library.decoder = decoders.ByteLevel()
    library.add_special_tokens(list(SPECIAL_TOKENS))
    return str(library.to_str())


def _write(path: Path, content: Mapping[str, object]) -> None:
    replace_text(path, json.dumps(content, indent=2) + "\n")
