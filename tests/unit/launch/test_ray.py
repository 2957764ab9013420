"""Ray's dashboard: where it is, who may ask it, what its words mean; what a job there begins with."""

import os
import subprocess
from pathlib import Path

import pytest

from hotlap.errors import UserError
from hotlap.launch import ray
from hotlap.launch.placed import PRINTED, State


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_MODE", "RAY_JOB_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("variables", "address", "url"),
    [
        ({}, None, "http://127.0.0.1:8265"),
        ({}, "head", "http://head:8265"),
        ({}, "head:80", "http://head:80"),
        ({}, "https://ray.example/", "https://ray.example"),
        ({"RAY_ADDRESS": "10.0.0.1:6379"}, None, "http://127.0.0.1:8265"),  # no dashboard, but where ray.init connects
        ({"RAY_ADDRESS": "http://10.0.0.1:8265"}, None, "http://10.0.0.1:8265"),
        ({"RAY_ADDRESS": "http://x", "RAY_API_SERVER_ADDRESS": "http://y"}, None, "http://y"),
        ({"RAY_API_SERVER_ADDRESS": "http://y"}, "head", "http://head:8265"),
    ],
)
def test_the_dashboard_is_where_rays_own_commands_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str], address: str | None, url: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    asked: list[str] = []

    def urlopen(request: object, timeout: float) -> None:
        asked.append(request.full_url)  # type: ignore[attr-defined]
        raise ConnectionRefusedError("Connection refused")

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    with pytest.raises(UserError, match=rf"Ray does not answer at {url} \(Connection refused\).*--on ray:ADDRESS"):
        ray.Ray(address).submit(("python",), tmp_path, limit_s=1.0)
    assert asked[0].startswith(f"{url}/api/")


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({}, None),
        ({"RAY_AUTH_TOKEN": "secret"}, "Bearer secret"),
        ({"RAY_AUTH_TOKEN": "secret", "RAY_AUTH_MODE": "disabled"}, None),
        ({"RAY_JOB_HEADERS": '{"Authorization": "Basic x"}', "RAY_AUTH_TOKEN": "secret"}, "Basic x"),
    ],
)
def test_a_token_goes_with_each_request(environ: dict[str, str], told: str | None) -> None:
    assert ray._headers(environ).get("Authorization") == told


def test_the_token_may_lie_where_ray_puts_it(tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("of file\n")
    assert ray._headers({})["Authorization"] == "Bearer of file"


@pytest.mark.parametrize(
    ("found", "state"),
    [
        ({"status": "PENDING"}, State.PLACED),
        ({"status": "RUNNING"}, State.PLACED),
        ({"status": "SUCCEEDED", "message": "Job finished successfully."}, State.OVER),
        ({"status": "STOPPED"}, State.OVER),
        ({"status": "FAILED", "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR", "message": "exit code 1"}, State.OVER),
        ({"status": "FAILED", "error_type": "JOB_SUPERVISOR_ACTOR_DIED", "message": "node died"}, State.LOST),
        ({"status": "FAILED", "error_type": "JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "message": "900 s"}, State.LOST),
        # Before error_type was.
        ({"status": "FAILED", "message": "Job supervisor actor died: The actor is dead."}, State.LOST),
        # It would take the next node's memory as well.
        (
            {
                "status": "FAILED",
                "error_type": "JOB_SUPERVISOR_ACTOR_DIED",
                "message": "Worker exit type: NODE_OUT_OF_MEMORY",
            },
            State.OVER,
        ),
    ],
)
def test_a_job_is_lost_where_its_node_was_and_not_where_it_failed(found: dict[str, str], state: State) -> None:
    assert ray._known(found)[0] is state


def run(script: str, **environ: str) -> int:
    environment = {"PATH": os.environ["PATH"], **environ}
    return subprocess.run(["sh", "-c", script], env=environment, check=False, timeout=60).returncode


def test_a_job_sees_the_variables_of_the_user_and_the_devices_of_the_node(tmp_path: Path) -> None:
    printed = tmp_path / PRINTED
    environ = {"CUDA_VISIBLE_DEVICES": "5", "A": "it's", "PYTHONUNBUFFERED": "", "BASH_FUNC_f%%": "() { :; }"}
    seen = 'echo "$A $CUDA_VISIBLE_DEVICES ${OMP_NUM_THREADS-none} ${PYTHONUNBUFFERED-none}"'
    script = ray._script(("sh", "-c", seen), printed, environ, limit_s=60.0)
    assert run(script, CUDA_VISIBLE_DEVICES="0,1", OMP_NUM_THREADS="8", PYTHONUNBUFFERED="1") == 0
    assert printed.read_text() == "it's 0,1 none \n"


def test_a_job_that_takes_longer_than_it_may_is_ended(tmp_path: Path) -> None:
    script = ray._script(("sleep", "600"), tmp_path / PRINTED, {}, limit_s=0.1)
    assert run(script) == 124


def test_a_job_stays_in_the_group_of_processes_that_ray_ends(tmp_path: Path) -> None:
    script = ray._script(("cut", "-d ", "-f5", "/proc/self/stat"), tmp_path / PRINTED, {}, limit_s=60.0)
    with subprocess.Popen(["sh", "-c", f"({script}); :"], start_new_session=True) as entrypoint:
        assert entrypoint.wait(timeout=60) == 0
    assert int((tmp_path / PRINTED).read_text()) == entrypoint.pid
