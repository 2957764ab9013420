"""How often is a lever that brings nothing handed over beside one that gains, where equal processes differ much?

Whole studies in the world of tests/unit/tune/world.py, whose processes and blocks vary as told: in each world some
levers make steps shorter, and all others bring nothing. `python benchmarks/companions.py [STUDIES of each world]`.
"""

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import results_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.unit.tune.world import MACHINE, SCRIPT, World, new_study, options_for

from aa import Silent
from hotlap.search import StudyLog
from hotlap.tune import tuned

STUDIES = 40

TWO = {"fused-optimizer": 0.91, "cached-dataset": 0.8}
"""Levers that gain, and what they multiply the step by."""

WORLDS: tuple[tuple[dict[str, float], float, dict[str, Any]], ...] = (
    ({"cached-dataset": 0.77}, 240.0, {"process_sd": 0.055}),
    ({"cached-dataset": 0.8}, 240.0, {"process_sd": 0.08}),
    ({"fused-optimizer": 0.91}, 240.0, {"process_sd": 0.06}),
    (TWO, 240.0, {"process_sd": 0.06}),
    (TWO, 300.0, {"process_sd": 0.08, "length": 2_000}),
)
"""(levers that gain, budget in seconds, what is other than in `_COMMON`)."""

_COMMON = {"length": 1_000, "step_s": 0.04, "block_sd": 0.1, "start_s": 2.0}


def handed_over(script: Path, costs: dict[str, float], budget_s: float, seed: int, **settings: Any) -> set[str]:
    """Names of the levers of one study's result."""
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    world = World(path=str(script), sha256=digest, costs=costs, seed=seed, **{**_COMMON, **settings})
    options = options_for(str(script), budget_s=budget_s)
    study = tuned(StudyLog(new_study(options), options, MACHINE, world, Silent(), now=world.now))
    return {str(lever["name"]) for lever in study.result.levers} if study.result is not None else set()


def main() -> None:
    """All worlds, and their sum."""
    studies, rows = int(sys.argv[1]) if len(sys.argv) > 1 else STUDIES, []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT)
        for costs, budget_s, settings in WORLDS:
            found = [handed_over(script, costs, budget_s, seed, **settings) for seed in range(studies)]
            row = {
                "costs": costs,
                "budget_s": budget_s,
                **settings,
                "studies": studies,
                "gains_found": sum(len(names & costs.keys()) for names in found),
                "gains": studies * len(costs),
                "with_companion": sum(not names <= costs.keys() for names in found),
            }
            rows.append(row)
            print(row, flush=True)
    of = studies * len(WORLDS)
    gains = sum(row["gains"] for row in rows)
    results_file.write(
        "companions",
        results=rows,
        claims=[
            {
                "claim": f"simulated studies (of {of}) in which what brings nothing was handed over beside a gain",
                "mid": sum(row["with_companion"] for row in rows),
            },
            {
                "claim": f"gains handed over in them (of {gains}; equal processes differ by 8 to 11%)",
                "mid": sum(row["gains_found"] for row in rows),
            },
        ],
    )


if __name__ == "__main__":
    main()
