"""Under pad-shapes a real script trains on the same data, padding apart: the gate says so from real runs."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hotlap.experiment import Sizes
from hotlap.launch import Launcher
from hotlap.record import LeverSpec, Plan, Run, Verdict
from hotlap.tune import Options
from hotlap.tune.evidence import GateRuns
from tests.e2e.running import SCRIPTS

pytestmark = [pytest.mark.e2e, pytest.mark.slow]  # fifteen runs

PADDED: LeverSpec = {"name": "pad-shapes", "multiple": 64}

SIZES = Sizes(step_s=0.01, setup_s=5.0, block=11, steps=60, warmup=5, evidence_steps=24, together=2, cores=2.0)


def test_a_model_with_a_mask_is_unharmed_by_more_padding(tmp_path: Path, launcher: Launcher) -> None:
    script = tmp_path / "sentences.py"
    shutil.copy(SCRIPTS / "sentences.py", script)
    made: list[Run] = []

    def runs(plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        found = launcher(plans, limit_s=limit_s)
        made.extend(found)
        return found

    options = Options(command=(sys.executable, str(script)), cwd=str(tmp_path), title=script.name)
    ruling = GateRuns(runs, options, SIZES, ()).judge((PADDED,))
    assert ruling.verdict is Verdict.UNHARMED, ruling.why
    assert ruling.why.startswith("Padding apart: ")
    as_written, padded = (next(run for run in made if bool(run.always) is under) for under in (False, True))
    assert as_written.batch_digest != padded.batch_digest, "batches are longer"
