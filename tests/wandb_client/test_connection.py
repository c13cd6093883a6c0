"""Online, offline or not at all: who decides, and how long it takes."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headtohead.wandb_client.connection import Mode, TrackingSettings, decide, logged_in, server_url, unreachable


@pytest.fixture
def open_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def log_in(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)


def test_auto_is_offline_without_a_login() -> None:
    decision = decide(TrackingSettings())
    assert decision.mode == "offline"
    assert "wandb login" in decision.why


def test_auto_is_online_with_a_login_and_a_server(monkeypatch: pytest.MonkeyPatch, open_port: int) -> None:
    log_in(monkeypatch, open_port)
    assert decide(TrackingSettings()).mode == "online"


@pytest.mark.parametrize("mode", ["auto", "online"])
def test_a_server_out_of_reach_means_offline_within_seconds(
    monkeypatch: pytest.MonkeyPatch, closed_port: int, mode: Mode
) -> None:
    log_in(monkeypatch, closed_port)
    begun = time.monotonic()

    decision = decide(TrackingSettings(mode=mode))

    assert decision.mode == "offline"
    assert f"127.0.0.1:{closed_port} cannot be reached" in decision.why
    assert time.monotonic() - begun < 30


def test_online_without_a_login_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"`wandb login` or set WANDB_API_KEY, or use tracking=auto"):
        decide(TrackingSettings(mode="online"))


def test_a_mode_asked_for_by_name_needs_neither_login_nor_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    assert decide(TrackingSettings(mode="offline")).mode == "offline"
    assert decide(TrackingSettings(mode="none")).mode == "none"


@pytest.mark.parametrize(("value", "mode"), [("offline", "offline"), ("dryrun", "offline"), ("disabled", "none")])
def test_auto_follows_wandbs_own_variable(
    monkeypatch: pytest.MonkeyPatch, open_port: int, value: str, mode: str
) -> None:
    log_in(monkeypatch, open_port)
    monkeypatch.setenv("WANDB_MODE", value)
    assert decide(TrackingSettings()).mode == mode


def test_a_login_of_another_server_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine api.wandb.ai\n  login user\n  password " + "x" * 40 + "\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert logged_in()

    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    assert not logged_in()


def test_a_broken_netrc_is_no_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine\n\nnonsense {")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert not logged_in()


def test_the_server_is_that_of_the_variable_else_of_the_settings_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert server_url() == "https://api.wandb.ai"

    (tmp_path / "settings").write_text("[default]\nbase_url = https://mine.example.org/\nentity = 100%\n")
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path))
    assert server_url() == "https://mine.example.org"

    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:1/")
    assert server_url() == "http://127.0.0.1:1"


def test_behind_a_proxy_it_is_the_proxy_that_must_be_reached(
    monkeypatch: pytest.MonkeyPatch, open_port: int, closed_port: int
) -> None:
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{open_port}")
    assert unreachable("https://no-such-host.invalid", timeout=30) is None

    monkeypatch.setenv("https_proxy", f"127.0.0.1:{closed_port}")
    assert unreachable("https://no-such-host.invalid", timeout=30)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "offlien"}, r"tracking\.mode is 'offlien'; choose from auto, online, offline, none"),
        ({"finish_timeout": 0}, r"tracking\.finish_timeout is 0; give seconds above 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrackingSettings(**settings)
