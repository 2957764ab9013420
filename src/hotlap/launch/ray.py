"""Ray, by the HTTP requests of its jobs (https://docs.ray.io/en/latest/cluster/running-applications/job-submission/api.html).

Its own client makes the same four requests, and needs all of Ray (350 MB) in the environment of the training.
"""

import contextlib
import http.client
import json
import math
import os
import re
import shlex
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from hotlap.errors import UserError
from hotlap.launch.placed import PRINTED, State
from hotlap.launch.streams import last_line

_DEFAULT = "http://127.0.0.1:8265"
_PORT = ":8265"
_ANSWER_S = 30.0
# A job that is asked to end closes its scratch layers first.
_GRACE_S = 30
_START = "start.sh"

# Set by Ray for its own workers, so a training that is started by hand has none of them; the first changes its speed.
_OF_RAY = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT", "PYTHONUNBUFFERED")
# Devices are the node's to give (CUDA_, HIP_, ...).
_OF_THE_NODE = "_VISIBLE_DEVICES"
# What `sh` takes for a name.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_TROUBLE = (OSError, http.client.HTTPException, ValueError)
"""No answer, or none that is JSON."""


class Ray:
    """`address`: of the dashboard, "head", "head:8265" or a URL; None for Ray's own variables, or this machine."""

    name = "ray"
    one_kind = "Ray tells nodes apart by their numbers of CPUs and GPUs alone: it needs nodes of one processor and GPU."

    def __init__(self, address: str | None = None) -> None:
        self._address = _url(address)

    def submit(self, command: Sequence[str], folder: Path, *, limit_s: float) -> str:
        """As `hotlap.launch.placed.Backend`. A node of its own: all CPUs and GPUs of the largest there is."""
        start = folder / _START
        start.touch(mode=0o700)
        start.write_bytes(os.fsencode(_script(command, folder / PRINTED, os.environ, limit_s=limit_s)))
        body: dict[str, object] = {"entrypoint": shlex.join(["sh", str(start)]), "metadata": {"job_name": "hotlap"}}
        try:
            num_gpus, num_cpus = self._largest()
            body |= {"entrypoint_num_cpus": num_cpus, "entrypoint_num_gpus": num_gpus}
            found = self._answer("/api/jobs/", body)
        except urllib.error.HTTPError as error:
            told = last_line(error.read().decode("utf-8", "replace")).rstrip(".")
            raise UserError(f"Ray refused the job: {told or error.reason}.") from None
        except _TROUBLE as error:
            raise UserError(
                f"Ray does not answer at {self._address} ({_reason(error)}). Name the address of its dashboard, as "
                "`ray start --head` shows it: --on ray:ADDRESS."
            ) from None
        return str(found["submission_id"])

    def state(self, job: str) -> tuple[State, str]:
        """As `hotlap.launch.placed.Backend`. A cluster that was started anew knows no job of the old one."""
        try:
            found = self._answer(f"/api/jobs/{job}")
        except urllib.error.HTTPError as error:
            return (State.LOST if error.code == HTTPStatus.NOT_FOUND else State.SILENT), error.reason
        except _TROUBLE as error:
            return State.SILENT, _reason(error)
        return _known(found)

    def cancel(self, job: str) -> None:
        """As `hotlap.launch.placed.Backend`."""
        # One that is over cannot be stopped, and one without its cluster need not be.
        with contextlib.suppress(*_TROUBLE):
            self._answer(f"/api/jobs/{job}/stop", {})

    def _largest(self) -> tuple[float, float]:
        """GPUs and CPUs of a node. What asks for fewer could share one with others."""
        listed = self._answer("/api/v0/nodes?detail=true&limit=10000")["data"]["result"]["result"]
        alive = [node["resources_total"] for node in listed if node["state"] == "ALIVE"]
        found = [(one.get("GPU", 0.0), one["CPU"]) for one in alive if one.get("CPU")]
        if not found:
            raise UserError(f"Ray at {self._address} has no node that gives a CPU to jobs.")
        return max(found)

    def _answer(self, path: str, body: Mapping[str, object] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._address + path, data=data, headers=_headers(os.environ))
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
            return json.load(answer)


def _url(address: str | None) -> str:
    # https://docs.ray.io/en/latest/cluster/running-applications/job-submission/cli.html; RAY_ADDRESS may be no URL.
    named = (os.environ.get(name, "") for name in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS"))
    found = address or next((url for url in named if "://" in url), _DEFAULT)
    if "://" not in found:
        found = f"http://{found}" if ":" in found else f"http://{found}{_PORT}"
    return found.rstrip("/")


def _headers(environ: Mapping[str, str]) -> dict[str, str]:
    """As Ray's own commands send them (https://docs.ray.io/en/latest/ray-security/token-auth.html)."""
    headers = {"Content-Type": "application/json", **json.loads(environ.get("RAY_JOB_HEADERS") or "{}")}
    path = Path(environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    token = environ.get("RAY_AUTH_TOKEN") or (path.read_text(encoding="utf-8").strip() if path.is_file() else "")
    if token and environ.get("RAY_AUTH_MODE", "token") == "token":
        headers.setdefault("Authorization", f"Bearer {token}")
    return headers


def _script(command: Sequence[str], printed: Path, environ: Mapping[str, str], *, limit_s: float) -> str:
    """The command, in this environment, as long as it may run: Ray passes on neither. (Variables in the request itself
    would be shown by the dashboard to everybody.)"""
    names = sorted(name for name in environ if _NAME.fullmatch(name) and not name.endswith(_OF_THE_NODE))
    return "\n".join(
        (
            f"unset {' '.join(_OF_RAY)}",
            *(f"export {name}={shlex.quote(environ[name])}" for name in names),
            # In the foreground, for a group of its own would outlive its node: Ray ends that of the entrypoint.
            f"exec timeout --foreground --kill-after={_GRACE_S} {math.ceil(limit_s)} {shlex.join(command)} "
            f">>{shlex.quote(str(printed))} 2>&1",
            "",
        )
    )


def _known(found: Mapping[str, Any]) -> tuple[State, str]:
    status = str(found["status"])
    if status in ("PENDING", "RUNNING"):
        return State.PLACED, status
    # It is Ray's supervisor of the job that dies with a node, or waits in vain for one (for a quarter of an hour).
    told = f"{found.get('error_type')} {found.get('message')}".lower()
    lost = status == "FAILED" and "supervisor" in told and "memory" not in told
    return (State.LOST if lost else State.OVER), str(found.get("error_type") or status)


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error or type(error).__name__)
