"""The user's files are looked for as soon as a configuration names them, before what takes seconds is imported."""

from __future__ import annotations

from collections.abc import Mapping

from headtohead.config.rules.config_view import ConfigView
from headtohead.errors import UsageError
from headtohead.files.user_paths import missing_path_sentence

_FIELDS = ("path", "validation_path", "test_path", "folder")
_OURS = "headtohead."
"""The beginning of our own classes: a user's class alone knows what it does with a field of such a name."""


def missing_data(config: Mapping[str, object]) -> str | None:
    """Return what is to be said of a file or folder of the data, or of a set that it is made of, where nothing is."""
    for node_path, _, node in ConfigView(config).data_nodes():
        for field in _FIELDS if str(node.get("_target_")).startswith(_OURS) else ():
            path = node.get(field)
            if path is not None and (sentence := missing_path_sentence(str(path), f"{node_path}.{field}")):
                return sentence
    return None


def check_data_paths(config: Mapping[str, object]) -> None:
    """Raise UsageError for data that are not there."""
    if (sentence := missing_data(config)) is not None:
        raise UsageError(sentence)
