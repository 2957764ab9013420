"""Injected faults: how many does the gate catch, and how many harmless changes does it let pass?

The trainings are those of the tests: a small NumPy network under Adam and SGD, with harms hidden in its arithmetic.
`python benchmarks/gate.py` writes `benchmarks/results/gate-<device>.json`.
"""

import sys
from collections import Counter
from pathlib import Path

import results_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.property.test_gate import HARMLESS
from tests.unit.gate.trainer import HARMS, Training, evidence, train

from hotlap.gate import judge
from hotlap.record import Verdict

SEEDS = range(3)


def verdicts(contract: str, lever: dict[str, object]) -> Counter[Verdict]:
    """Over optimizers and seeds of the study."""
    num_seeds = 5 if contract == "statistical" else 1
    return Counter(
        judge(contract, evidence(Training(optimizer=name, seed=100 + seed), num_seeds=num_seeds, **lever)).verdict
        for name in ("adam", "sgd")
        for seed in SEEDS
    )


def main() -> None:
    """One row a harm; a column a contract: how many of the studies called it HARMED."""
    rows: dict[str, dict[str, object]] = {name: {"harm": name} for name in HARMS}
    claims = []
    for contract, harmless in HARMLESS.items():
        caught = passed = total = total_harmless = 0
        for name, lever in HARMS.items():
            found = verdicts(contract, lever)
            rows[name][contract] = f"{found[Verdict.HARMED]} of {found.total()}"
            if found[Verdict.UNDECIDED]:
                rows[name][contract] = f"{rows[name][contract]}, {found[Verdict.UNDECIDED]} undecided"
            caught, total = caught + found[Verdict.HARMED], total + found.total()
        for lever in harmless.values():
            found = verdicts(contract, lever)
            passed, total_harmless = passed + found[Verdict.UNHARMED], total_harmless + found.total()
        train.cache_clear()
        claims += [
            {"claim": f"{contract}: injected faults caught (of {total})", "mid": 100 * caught / total, "unit": "%"},
            {
                "claim": f"{contract}: harmless changes passed (of {total_harmless})",
                "mid": 100 * passed / total_harmless,
                "unit": "%",
            },
        ]
        print(claims[-2:])
    results_file.write("gate", results=list(rows.values()), claims=claims)


if __name__ == "__main__":
    main()
