"""Secrets are masked, and everything that a config needs to run again is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.records.secrets import MASK, mask_secrets, mask_yaml, without_home


@pytest.mark.parametrize(
    "key",
    [
        "api_key",
        "apiKey",
        "APIKey",
        "wandb_api_key",
        "HF_TOKEN",
        "token",
        "password",
        "db_passwd",
        "client_secret",
        "key",
    ],
)
def test_a_text_under_a_key_that_names_a_secret_is_masked(key: str) -> None:
    assert mask_secrets({"a": {key: "s3cr3t"}}) == {"a": {key: MASK}}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_tokens", 100),
        ("tokens", 10),
        ("num_key_value_heads", 4),
        ("pad_token", "[PAD]"),
        ("tokenizer", "bpe"),
        ("key", None),
        ("monkey", "business"),
        ("keyboard", "qwerty"),
        ("tokens_per_batch", "auto"),
    ],
)
def test_a_value_that_is_no_secret_is_kept(key: str, value: object) -> None:
    assert mask_secrets({key: value}) == {key: value}


def test_numbers_and_lists_can_be_secrets_too() -> None:
    assert mask_secrets({"password": 1234, "tokens": ["a", "b"]}) == {"password": MASK, "tokens": MASK}


def test_a_password_within_an_address_is_masked() -> None:
    assert mask_secrets(["https://me:pass@host/x"]) == ["https://***@host/x"]


def test_yaml_keeps_everything_but_secrets_to_the_letter() -> None:
    text = (
        "# token: in a comment\nmodel:\n  d_model: 64\n  api_key: abc\n  'hf_token': \"x y\"\n"
        "  max_tokens: 10\n  password: 1234\n  token: null\nurl: http://a:b@c/d\nlist:\n- secret: z\n"
    )
    assert mask_yaml(text) == (
        "# token: in a comment\nmodel:\n  d_model: 64\n  api_key: '***'\n  'hf_token': '***'\n"
        "  max_tokens: 10\n  password: '***'\n  token: null\nurl: http://***@c/d\nlist:\n- secret: '***'\n"
    )


def test_the_home_folder_is_written_as_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    assert without_home({"path": "/home/ada/text.txt", "other": ["/home/adam", 3]}) == {
        "path": "~/text.txt",
        "other": ["/home/adam", 3],
    }
