"""The dashboard answers this machine's own browser, and shows nothing outside its folder."""

from __future__ import annotations

import gzip
import json
import math
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from headtohead.comparison.dashboard import routes
from headtohead.comparison.dashboard.served_folder import FILE
from headtohead.comparison.dashboard.server import Dashboard
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import MULTIRUN, RunFolder, log_file
from served_runs import message, noted_pieces, requested, served, train, written_run
from waiting import PATIENCE

SECRET = "the secret"
H2H = [sys.executable, "-c", "import sys; from headtohead.cli import main; sys.exit(main())"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret.png").write_text(SECRET)
    (tmp_path / "report.html").write_text(SECRET)
    root = tmp_path / "outputs"
    root.mkdir()
    return root


@pytest.fixture
def dashboard(root: Path) -> Iterator[Dashboard]:
    with served(root) as running:
        yield running


def test_it_listens_to_the_loopback_alone(dashboard: Dashboard) -> None:
    assert dashboard.socket.getsockname()[0] == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", dashboard.server_port), timeout=PATIENCE).close()


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "127.0.0.1:80@evil.example", "[::", ""],
)
def test_a_name_that_is_not_this_machine_is_refused(dashboard: Dashboard, host: str) -> None:
    for path in ("/", "/api/runs", "/plot.js"):
        answer, body = requested(dashboard, path, headers={"Host": host})
        assert answer.status == 403
        assert b"only for this machine" in body


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1"])
def test_a_tunnel_may_have_another_port(dashboard: Dashboard, host: str) -> None:
    assert requested(dashboard, "/api/runs", headers={"Host": host})[0].status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.png",
        "/%2e%2e/secret.png",
        "//etc/passwd",
        "/pages/../answers.py",
        "/answers.py",
        "/picture?run=..&step=.&name=secret",
        "/picture?run=../&step=..&name=../secret",
        "/picture?run=RUN&step=../../..&name=secret",
        "/picture?run=RUN&step=..%2f..%2f..%2f..&name=secret",
        "/picture?run=RUN&step=step_1&name=..%2f..%2f..%2f..%2f..%2fsecret",
        "/api/table?run=RUN&step=..&name=record.json",
        "/api/curves?metric=a&run=../&file=0&offset=0",
        "/api/run?run=/etc",
        "/report?study=../..",
        "/report?study=..%2f..",
        "/report?study=%00",
        "/report",
    ],
)
def test_no_address_leads_out_of_the_folder(dashboard: Dashboard, root: Path, path: str) -> None:
    folder = written_run(root)
    (folder.attention / "step_1").mkdir(parents=True)
    answer, body = requested(dashboard, path.replace("RUN", f"some/{folder.id}"))
    assert answer.status == 404 or body == b'{"../":null}'
    assert SECRET.encode() not in body


def test_links_out_of_the_folder_are_not_followed(dashboard: Dashboard, root: Path) -> None:
    folder = written_run(root)
    (folder.attention / "step_1").mkdir(parents=True)
    (folder.attention / "step_1" / "leak.png").symlink_to(root.parent / "secret.png")
    (folder.attention / "step_2").symlink_to(root.parent)
    (root / "studies" / "leak").mkdir(parents=True)
    (root / "studies" / "leak" / "report.html").symlink_to(root.parent / "report.html")
    assert message(dashboard, "/api/run", run=f"some/{folder.id}")["pictures"] == {}
    assert requested(dashboard, f"/picture?run=some/{folder.id}&step=step_1&name=leak")[0].status == 404
    assert requested(dashboard, f"/picture?run=some/{folder.id}&step=step_2&name=secret")[0].status == 404
    assert requested(dashboard, "/report?study=leak")[0].status == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_can_be_written(dashboard: Dashboard, root: Path, method: str) -> None:
    folder = written_run(root)
    before = (folder.path / "record.json").read_bytes()
    assert requested(dashboard, f"/api/run?run=some/{folder.id}", method=method)[0].status == 501
    assert (folder.path / "record.json").read_bytes() == before


def test_every_answer_forbids_scripts_of_others(dashboard: Dashboard) -> None:
    for path in ("/", "/app.js", "/api/runs", "/nowhere"):
        answer, _ = requested(dashboard, path)
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_report_has_no_origin_and_no_network(dashboard: Dashboard, root: Path) -> None:
    (root / "studies" / "norms").mkdir(parents=True)
    (root / "studies" / "norms" / "report.html").write_text("<p>verdict")
    answer, body = requested(dashboard, "/report?study=norms")
    assert body == b"<p>verdict"
    policy = answer.headers["Content-Security-Policy"]
    assert "sandbox allow-scripts" in policy
    assert "allow-same-origin" not in policy
    assert "connect-src" not in policy
    assert "default-src 'none'" in policy


def test_curves_send_only_new_lines(dashboard: Dashboard, root: Path) -> None:
    folder = written_run(root)
    key = f"some/{folder.id}"
    first = message(dashboard, "/api/curves", metric="train/loss", run=key, file="0", offset="0")[key]
    assert first["curves"]["train/loss"]["step"] == [1, 2, 3]
    assert first["curves"]["train/loss"]["tokens"] == [10, 20, 30]
    train(folder, range(4, 6))
    position = {"file": first["file"], "offset": str(first["offset"])}
    second = message(dashboard, "/api/curves", metric="train/loss", run=key, **position)[key]
    assert second["curves"]["train/loss"]["step"] == [4, 5]
    assert second["curves"]["train/loss"]["value"] == [1.0, 0.8]
    assert not second["restarted"]


def test_a_run_is_read_once_for_all_metrics_of_a_question(
    dashboard: Dashboard, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = noted_pieces(monkeypatch)
    folders = [written_run(root, name=f"run{number}") for number in range(3)]
    names = [f"train/metric{number}" for number in range(20)]
    for folder in folders:
        folder.log(Progress(4, 0, 40, 4e6, 2.0), {name: float(at) for at, name in enumerate(names)})
    query = [("metric", name) for name in names]
    for folder in folders:
        query += [("run", f"some/{folder.id}"), ("file", "0"), ("offset", "0")]
    answer, body = requested(dashboard, f"/api/curves?{urlencode(query)}")
    assert answer.status == 200
    for own in json.loads(body).values():
        assert [own["curves"][name]["value"] for name in names] == [[float(at)] for at in range(20)]
    assert sorted(path.parent for path, _ in pieces) == sorted(folder.path for folder in folders)
    assert sum(size for _, size in pieces) == sum(folder.metrics_file.path.stat().st_size for folder in folders)


def test_a_curve_is_as_many_points_as_a_chart_shows_however_long_it_is(dashboard: Dashboard, root: Path) -> None:
    folder = RunFolder.create_at(root / "some" / "long")
    folder.write_record(RunRecord(id=folder.id, name="long", status="finished"))
    values = [math.inf if step == 700 else 1.0 + step % 7 for step in range(1, 1001)]
    for step, value in enumerate(values, 1):
        folder.log(Progress(step, 0, 8 * step, 1e6 * step, 0.5 * step), {"train/loss": value})
    ask = {"metric": "train/loss", "run": "some/long", "file": "0", "offset": "0"}

    def curve(**query: str) -> dict[str, list[float]]:
        answer = message(dashboard, "/api/curves", **ask, **query)
        return dict(answer["some/long"]["curves"]["train/loss"])

    whole = curve()
    assert (len(whole["step"]), set(whole["value"]) - {None}) == (1000, set(values) - {math.inf})
    for most in (3, 10, 100, 400, 999):
        part = curve(most=str(most))
        assert {len(part[name]) for name in ("step", "tokens", "value", "low", "high", "count")} == {most}
        assert (sum(part["count"]), part["step"][0], part["step"][-1]) == (1000, 1, 1000)
        assert part["step"] == sorted(set(part["step"]))
        start = 0
        for low, mean, high, count in zip(part["low"], part["value"], part["high"], part["count"], strict=True):
            own = values[start : start + count]
            expected = [None] * 3 if math.inf in own else [min(own), pytest.approx(sum(own) / count), max(own)]
            assert [low, mean, high] == expected
            start += count
    assert "low" not in curve(most="1000")
    stretch = {"axis": "tokens", "from": "800", "to": "880"}
    part = curve(most="100", **stretch)
    assert part["step"] == list(range(99, 112)), "one more on either side"


def test_studies_tell_their_verdicts(dashboard: Dashboard, root: Path) -> None:
    verdict = {"kind": "better", "sentence": "rms_norm is better.", "p": 0.01}
    result = {"study": {"question": "Which norm?"}, "complete": True, "verdicts": [verdict], "remarks": ["a remark"]}
    for name, text in (("norms", json.dumps(result)), ("torn", "{"), ("begun", None)):
        (root / "studies" / name).mkdir(parents=True)
        if text is not None:
            (root / "studies" / name / "verdict.json").write_text(text)
    (root / "studies" / "running" / "registrations").mkdir(parents=True)
    registered = {"arms": {"rms": "a"}, "seeds": [0], "time": "2026", "study": {"question": "How many heads?"}}
    (root / "studies" / "running" / "registrations" / "one.json").write_text(json.dumps(registered))
    begun, norms, running, torn = message(dashboard, "/api/studies")
    assert begun == {"name": "begun", "report": False}
    assert running["question"] == "How many heads?", "known before there is a verdict"
    assert norms["question"] == "Which norm?"
    assert norms["verdicts"] == [{"kind": "better", "answer": "better", "sentence": "rms_norm is better."}]
    assert "is not valid JSON" in torn["unreadable"]


def test_tables_are_cut_after_their_first_rows(dashboard: Dashboard, root: Path) -> None:
    folder = written_run(root)
    (folder.path / "tables" / "test").mkdir(parents=True)
    (folder.path / "tables" / "test" / "samples.csv").write_text("text,said\n" + 'a,"b, c"\n' * 300)
    table = message(dashboard, "/api/table", run=f"some/{folder.id}", step="test", name="samples")
    assert table["columns"] == ["text", "said"]
    assert table["rows"][0] == ["a", "b, c"]
    assert (len(table["rows"]), table["more"]) == (200, True)


def test_a_file_that_the_browser_has_is_not_sent_again(dashboard: Dashboard) -> None:
    answer, body = requested(dashboard, "/plot.js")
    assert len(body) > 1000
    again, nothing = requested(dashboard, "/plot.js", headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status, nothing) == (304, b"")


def test_large_answers_are_packed_for_those_who_take_that(dashboard: Dashboard) -> None:
    plain, text = requested(dashboard, "/plot.js")
    packed, body = requested(dashboard, "/plot.js", headers={"Accept-Encoding": "gzip"})
    assert plain.headers["Content-Encoding"] is None and packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == text and len(body) < len(text) / 2


@pytest.mark.process
def test_the_server_imports_nothing_heavy() -> None:
    script = (
        "import sys; import headtohead.cli.dashboard, headtohead.comparison.dashboard.server; "
        "print([name for name in ('torch', 'numpy', 'hydra', 'omegaconf', 'pytorch_lightning', 'wandb', 'plotly') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.process
def test_the_command_says_where_it_is_and_ends_when_it_is_asked_to(root: Path, number: signal.Signals) -> None:
    """Also where whoever started it had it ignore Ctrl-C."""
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *H2H, "dashboard", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        port = address.rstrip("/").rpartition(":")[2]
        try:
            taken = subprocess.run([*command[:-1], port], capture_output=True, text=True, timeout=PATIENCE)
            process.send_signal(number)
            assert process.wait(timeout=PATIENCE) == 0
        finally:
            process.kill()
    assert taken.returncode == 2
    assert f"--port {port} is in use: --port 0 takes any free one" in taken.stderr


@pytest.mark.process
def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    command = [*H2H, "dashboard", str(tmp_path / "ouputs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert "is not a folder" in done.stderr


@pytest.mark.parametrize("verdict", ['{"verdicts": 3, "remarks": 7}', '{"study": [1], "verdicts": [null, {}]}', "[]"])
def test_a_verdict_of_another_form_does_not_hide_the_other_studies(
    dashboard: Dashboard, root: Path, verdict: str
) -> None:
    (root / "studies" / "odd").mkdir(parents=True)
    (root / "studies" / "odd" / "verdict.json").write_text(verdict)
    answer, _ = requested(dashboard, "/api/studies")
    assert answer.status == 200


def marked(dashboard: Dashboard, content: object, **headers: str) -> int:
    own = {"Content-Type": "application/json", "Origin": dashboard.address.rstrip("/")}
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return requested(dashboard, "/api/mark", method="POST", headers={**own, **sent}, body=json.dumps(content))[0].status


def test_stars_and_notes_outlive_the_server_and_choose_runs(tmp_path: Path) -> None:
    first, second = (written_run(tmp_path, name=name, status="finished") for name in ("first", "second"))
    key = f"some/{first.id}"
    with served(tmp_path) as dashboard:
        before = message(dashboard, "/api/runs")["now"]
        assert marked(dashboard, {"run": key, "star": True, "note": "the one <b>to keep</b>"}) == 200
        assert message(dashboard, "/api/runs", known=before).get("same") is None
    with served(tmp_path) as dashboard:
        row = message(dashboard, "/api/rows", run=key, group="")[key]
        assert (row["star"], row["note"]) == (True, "the one <b>to keep</b>")
        assert [item[0] for item in message(dashboard, "/api/runs", stars="1")["items"]] == [key]
        assert marked(dashboard, {"run": key, "star": False, "note": ""}) == 200
        assert message(dashboard, "/api/runs", stars="1")["items"] == []
        assert marked(dashboard, {"run": f"some/{second.id}/.."}) == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
        {"Host": "evil.example"},
    ],
)
def test_only_the_own_page_may_send_marks(tmp_path: Path, headers: dict[str, str]) -> None:
    run = written_run(tmp_path, status="finished")
    with served(tmp_path) as dashboard:
        assert marked(dashboard, {"run": f"some/{run.id}", "star": True}, **headers) == 403
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("content", [[], {}, {"run": 3}, "text", {"run": "x" * 30_000}])
def test_a_mark_that_is_none_is_refused(tmp_path: Path, content: object) -> None:
    with served(tmp_path) as dashboard:
        assert 400 <= marked(dashboard, content) < 500


def test_columns_and_a_run_beside_another_come_from_configurations(tmp_path: Path) -> None:
    config = {"model": {"d_model": 32, "norm": {"eps": 1e-5}}, "choices": {"task": "causal_lm", "data": "grammar_lm"}}
    run = written_run(tmp_path, status="finished", config=config)
    key = f"some/{run.id}"
    with served(tmp_path) as dashboard:
        assert message(dashboard, "/api/settings", run=key, field=["model.d_model", "nothing"]) == {
            key: {"model.d_model": "32"}
        }
        assert message(dashboard, "/api/config", run=key)["model.norm.eps"] == "1e-05"
        assert message(dashboard, "/api/config", run="../etc") == {}
        assert message(dashboard, "/api/rows", run=key, group="")[key]["task"] == "causal_lm · grammar_lm"


@pytest.mark.parametrize("above", [".", MULTIRUN], ids=["study", "multirun"])
def test_what_a_run_of_workers_printed_is_one_click_away(dashboard: Dashboard, root: Path, above: str) -> None:
    folder = written_run(root)
    key = f"some/{folder.id}"
    assert message(dashboard, "/api/run", run=key)["output"] is False
    assert requested(dashboard, f"/output?run={key}")[0].status == 404

    file = log_file(root / above, folder.id)
    file.parent.mkdir(parents=True)
    file.write_text("0\n" * 200_000 + "<b>the last words\n")
    assert message(dashboard, "/api/run", run=key)["output"] is True
    answer, body = requested(dashboard, f"/output?run={key}")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert body.endswith(b"0\n<b>the last words\n") and len(body) == 2**18

    file.unlink()
    file.symlink_to(root.parent / "secret.png")
    assert message(dashboard, "/api/run", run=key)["output"] is False
    assert requested(dashboard, f"/output?run={key}")[0].status == 404


def test_two_dashboards_keep_each_other_s_marks(tmp_path: Path) -> None:
    first, second = written_run(tmp_path), written_run(tmp_path)
    with served(tmp_path) as one, served(tmp_path) as other:
        assert marked(one, {"run": f"some/{first.id}", "note": "of one"}) == 200
        assert marked(other, {"run": f"some/{second.id}", "star": True}) == 200
        assert marked(one, {"run": f"some/{first.id}", "note": "of one again"}) == 200
    marks = json.loads((tmp_path / FILE).read_text())
    assert marks[f"some/{first.id}"]["note"] == "of one again" and marks[f"some/{second.id}"]["star"] is True


@pytest.mark.parametrize("content", ["{", '["a"]', '{"some/run": {"note": "mine"}, }', ""])
def test_marks_that_cannot_be_read_are_not_replaced(content: str, tmp_path: Path) -> None:
    run = written_run(tmp_path)
    (tmp_path / FILE).write_text(content)
    with served(tmp_path) as dashboard:
        assert marked(dashboard, {"run": f"some/{run.id}", "star": True}) == 400
        assert (tmp_path / FILE).read_text() == content
        (tmp_path / FILE).unlink()
        assert marked(dashboard, {"run": f"some/{run.id}", "star": True, "note": "\ud800"}) == 400
        assert marked(dashboard, {"run": f"some/{run.id}", "star": True}) == 200


@pytest.mark.parametrize("number", ["\u00b2", "\u0663", "9" * 5000, "-1", "1e9", "", "\u2460"])
def test_an_address_with_odd_numbers_is_answered(number: str, tmp_path: Path) -> None:
    run = written_run(tmp_path)
    odd = quote(number)
    with served(tmp_path) as dashboard:
        for address in (
            f"/api/runs?shown={odd}", f"/api/curves?metric=train/loss&run=some/{run.id}&file={odd}&offset={odd}",
            f"/api/curves?metric=train/loss&run=some/{run.id}&file=1&offset={odd}",
        ):  # fmt: skip
            assert requested(dashboard, address)[0].status == 200, address


def test_a_table_is_read_as_far_as_it_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_MOST_READ", 100)
    (tmp_path / "a.csv").write_text("text,label\n" + "a" * 50 + ",b\n" + "c" * 10**6 + ",d\n")
    table = routes.read_table(tmp_path / "a.csv")
    assert table["more"] and table["rows"][0] == ["a" * 50, "b"] and len(table["rows"][1][0]) < 100
