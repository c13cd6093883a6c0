"""Commands as jobs of SLURM, by the real submitit, on the tests' cluster of one machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import headtohead as h2h
from execution.launchers.patient_commands import all_ended, waits_once
from headtohead.api.studies import StudyRequest
from headtohead.cli import main
from headtohead.config.errors import ConfigurationError
from headtohead.execution.launchers import slurm
from headtohead.execution.launchers.slurm import Allocation, Slurm
from headtohead.execution.launchers.worker_commands import Workers
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from slurm_cluster import Cluster, Job
from studies.small_studies import plan_without_models, write_run
from waiting import until

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the tests' cluster reads /proc")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


@pytest.mark.process
def test_jobs_are_written_as_asked_warned_preempted_and_go_on_when_they_are_queued_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    launcher = Slurm(
        allocation=Allocation(partition="gpu", gpus_per_node=2, timeout_min=90),
        setup=("export COLOUR=green",),
        additional_parameters={"gres": "gpu:1"},
    )
    commands = [waits_once(tmp_path, code) for code in (0, 3)]
    launcher.submit(commands)
    until(lambda: all((tmp_path / f"seen{code}").exists() for code in (0, 3)))
    warned, preempted = cluster.jobs
    for line in ("--partition=gpu", "--gpus-per-node=2", "--time=90", "--gres=gpu:1", "--signal=USR2@120"):
        assert f"#SBATCH {line}\n" in warned.script
    assert warned.script.index("export COLOUR=green") < warned.script.index("srun --unbuffered")
    assert "--array=0-1%2" in warned.script, "both in one array"
    warned.warn()
    preempted.preempt(grace_seconds=1.0)
    ended = {end.command.log.stem: end for end in all_ended(launcher)}
    assert {name: end.code for name, end in ended.items()} == {"0": 0, "3": 3}
    for command in commands:
        lines = command.log.read_text().splitlines()
        assert lines == ["kept a checkpoint", "went on with green 3"]
    assert [job.starts for job in cluster.jobs] == [2, 2]


@pytest.mark.process
def test_stop_cancels_jobs_and_waits_for_them(cluster: Cluster, tmp_path: Path) -> None:
    launcher = Slurm()
    launcher.submit([waits_once(tmp_path)])
    until(lambda: (tmp_path / "seen0").exists())
    (job,) = cluster.jobs
    launcher.stop()
    assert job.state == "CANCELLED" and not job.processes() and not launcher.is_busy
    assert (tmp_path / "logs" / "0.log").read_text() == "kept a checkpoint\n"


def test_a_machine_that_knows_no_cluster_is_told_where_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"Could not detect .srun.* use launcher=submitit_local"):
        Slurm().submit([waits_once(tmp_path)])


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["null", "equal_tokens", "equal_time"])
def test_such_a_machine_is_told_so_before_a_study_is_matched_or_estimated_and_nothing_is_written(
    budget: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def matches(planner: StudyPlanner) -> StudyPlan:
        raise AssertionError("arms were matched")

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(StudyPlanner, "plan", matches)
    monkeypatch.chdir(tmp_path)
    words = ["data=copy", "model.d_model=16", f"budget={budget}", "launcher=slurm"]
    assert main(["study", "norms_small", *words]) == 2
    assert "Could not detect" in capsys.readouterr().err
    with pytest.raises(ConfigurationError, match="Could not detect"):
        h2h.study("norms_small", words)
    assert not list(tmp_path.iterdir())


def test_such_a_machine_reports_a_study_whose_runs_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    plan = plan_without_models(tmp_path)
    request = StudyRequest(plan.study, Workers(Slurm(), number=1, threads=1), ("study", "small"))
    begun = SimpleNamespace(folder=plan.folder, plan=lambda: plan, has_begun=True)
    vars(request)["planner"] = begun
    for run in plan.runs[1:]:
        write_run(plan.run_folder(run))
    with pytest.raises(ConfigurationError, match="Could not detect"):
        request.check_start()
    write_run(plan.run_folder(plan.runs[0]))
    request.check_start()


@pytest.mark.process
def test_what_sbatch_refuses_is_told_in_one_sentence(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"launcher=slurm: the jobs were rejected: .*nice"):
        Slurm(additional_parameters={"nice": 1}).submit([waits_once(tmp_path)])


@pytest.mark.slow
@pytest.mark.process
def test_a_job_that_ends_without_an_answer_leaves_its_reason(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "RESULT_SECONDS", 0.5)
    launcher = Slurm(setup=("exit 1",))
    launcher.submit([waits_once(tmp_path)])
    jobs: list[Job] = cluster.jobs
    until(lambda: jobs[0].state == "FAILED")
    (end,) = all_ended(launcher)
    assert end.code == 1 and "FAILED" in end.last_words
