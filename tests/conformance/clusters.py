"""A cluster of processes here, which answers as Slurm's commands do and as Ray's dashboard does; faults on demand."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# Ray's workers, and so its jobs, have these whatever the user has set.
_OF_RAY = {"OMP_NUM_THREADS": "7", "PYTHONUNBUFFERED": "1"}

_SLURM = """#!{python} -ISs
import json, sys, urllib.request
words = json.dumps([sys.argv[0].rpartition("/")[2], *sys.argv[1:]]).encode()
code, out, err = json.load(urllib.request.urlopen("http://127.0.0.1:{port}/slurm", words))
sys.stdout.write(out), sys.stderr.write(err)
sys.exit(code)
"""


@dataclass
class _Job:
    command: str
    out: Path
    environment: dict[str, str]
    state: str = "pending"
    """pending, running, done, failed, cancelled, lost"""
    process: "subprocess.Popen[bytes] | None" = None


class Cluster:
    """`num_nodes` jobs run at the same time, as processes; the others wait for their turn."""

    def __init__(self, num_nodes: int) -> None:
        self._num_nodes = num_nodes
        self._lock = threading.Lock()
        self.jobs: dict[str, _Job] = {}
        self.num_to_lose = 0
        """Of the next jobs that are submitted: they lose their node before they begin."""
        self.silent = False
        """No request is answered."""
        self.refusal: str | None = None
        """What is said to who submits a job."""

    def submit(self, command: str, out: Path, environment: dict[str, str]) -> str:
        with self._lock:
            job = str(100 + len(self.jobs))
            self.jobs[job] = _Job(command, out, environment)
            if self.num_to_lose:
                self.num_to_lose -= 1
                self.jobs[job].state = "lost"
            return job

    def state(self, job: str) -> str | None:
        self._look()
        return self.jobs[job].state if job in self.jobs else None

    def cancel(self, job: str) -> None:
        with self._lock:
            found = self.jobs.get(job)
            if found is not None and found.state in ("pending", "running"):
                found.state = "cancelled"
                self._end(found)

    def close(self) -> None:
        """No job goes on."""
        for job in self.jobs:
            self.cancel(job)

    def _look(self) -> None:
        """Who has ended? Who is next?"""
        with self._lock:
            running = [job for job in self.jobs.values() if job.state == "running"]
            for job in running:
                assert job.process is not None
                if job.process.poll() is not None:
                    job.state = "failed" if job.process.returncode else "done"
            num_free = self._num_nodes - sum(job.state == "running" for job in running)
            for job in [job for job in self.jobs.values() if job.state == "pending"][:num_free]:
                self._begin(job)

    def _begin(self, job: _Job) -> None:
        with job.out.open("ab") as out:
            job.process = subprocess.Popen(
                ["sh", "-c", job.command], env=job.environment, stdout=out, stderr=out, start_new_session=True
            )
        job.state = "running"

    def _end(self, job: _Job) -> None:
        if job.process is not None:
            subprocess.run(["kill", "--", f"-{job.process.pid}"], check=False)
            job.process.wait()


def _slurm(cluster: Cluster, words: list[str]) -> tuple[int, str, str]:
    """Words of one of Slurm's commands -> exit code, output, errors."""
    if cluster.silent:
        return 1, "", f"{words[0]}: error: Unable to contact slurm controller (connect failure)\n"
    if words[0] == "sbatch":
        return _sbatch(cluster, words)
    job = words[-1] if words[0] in ("scancel", "scontrol") else _option(words, "jobs")
    if words[0] == "scancel":
        cluster.cancel(job)
        return 0, "", ""
    known = {"pending": "PENDING", "running": "RUNNING", "done": "COMPLETED", "failed": "FAILED"}
    word = (known | {"cancelled": "CANCELLED", "lost": "PREEMPTED"}).get(cluster.state(job) or "")
    if words[0] == "squeue":
        return 0, f"{word}\n" if word in ("PENDING", "RUNNING") else "", ""
    if words[0] == "scontrol" and word is not None:
        return 0, f"JobId={job} JobName=hotlap\n   JobState={word} Reason=None Dependency=(null)\n", ""
    return 1, "", f"{words[0]}: error: Invalid job id specified\n"  # nothing is accounted for


def _sbatch(cluster: Cluster, words: list[str]) -> tuple[int, str, str]:
    if cluster.refusal is not None:
        return 1, "", f"sbatch: error: {cluster.refusal}\n"
    job = cluster.submit(_option(words, "wrap"), Path(_option(words, "output")), dict(os.environ))
    return 0, f"{job}\n", ""


def _option(words: list[str], name: str) -> str:
    return next(word.partition("=")[2] for word in words if word.startswith(f"--{name}="))


def _ray(cluster: Cluster, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    """Path of a request to the dashboard, and what it brings -> status and answer."""
    if path.startswith("/api/v0/nodes"):
        nodes = [{"state": "ALIVE", "resources_total": {"CPU": 4.0}}, {"state": "DEAD", "resources_total": {}}]
        return 200, {"data": {"result": {"result": nodes}}}
    if path == "/api/jobs/":
        if cluster.refusal is not None:
            return 400, f"Traceback (most recent call last):\n  File ...\nValueError: {cluster.refusal}"
        assert body["entrypoint_num_cpus"] == 4.0
        environment = {"PATH": os.environ["PATH"], **_OF_RAY}
        job = cluster.submit(body["entrypoint"], Path(os.devnull), environment)
        return 200, {"job_id": job, "submission_id": job}
    job, _, action = path.removeprefix("/api/jobs/").partition("/")
    state = cluster.state(job)
    if state is None:
        return 404, f"Job {job} does not exist"
    if action == "stop":
        cluster.cancel(job)
        return 200, {"stopped": True}
    return 200, {
        "status": {"done": "SUCCEEDED", "cancelled": "STOPPED", "lost": "FAILED"}.get(state, state.upper()),
        "error_type": {"lost": "JOB_SUPERVISOR_ACTOR_DIED", "failed": "JOB_ENTRYPOINT_COMMAND_ERROR"}.get(state),
        "message": "The actor is dead because its node has died." if state == "lost" else "",
    }


@contextmanager
def serving(cluster: Cluster) -> Iterator[int]:
    """Its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, body: Any) -> None:
            code: int
            answer: Any
            if self.path == "/slurm":
                code, answer = 200, _slurm(cluster, body)
            elif cluster.silent:
                code, answer = 503, "no healthy upstream"
            else:
                code, answer = _ray(cluster, self.path, body)
            self.send_response(code)
            self.end_headers()
            self.wfile.write((answer if isinstance(answer, str) else json.dumps(answer)).encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
            cluster.close()


def write_slurm(folder: Path, port: int) -> None:
    """Slurm's commands, each of which asks the cluster."""
    for name in ("sbatch", "squeue", "sacct", "scontrol", "scancel"):
        (folder / name).write_text(_SLURM.format(python=sys.executable, port=port))
        (folder / name).chmod(0o755)
