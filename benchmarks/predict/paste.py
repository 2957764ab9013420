"""results/*.json -> the tables in docs/predict.md, between their markers."""

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "predict.md"


def row(name: str, found: dict[str, Any]) -> str:
    cells = [f"{found[key]['median']:.3f} / {found[key]['p90']:.3f}" for key in
             ("model", "geometric_mean", "flops", "bandwidths")]  # fmt: skip
    return f"| {name} | {found['num_pairs']} | {' | '.join(cells)} | {found['coverage']:.0%} |"


def pairs(found: dict[str, Any]) -> str:
    device, model = found["device_held_out"], found["model_held_out"]
    family = found["architecture_held_out"]
    lines = [
        "| pairs | n | hotlap, median / p90 | geometric mean | FLOPs | bandwidths | inside 80% |",
        "|---|---|---|---|---|---|---|",
        row("**device held out**", device["all"]),
        *(row(name, one) for name, one in device["by_precision"].items()),
        *(row(name, one) for name, one in device["between_machines"].items()),
        *(row(name, one) for name, one in device["by_pair"].items()),
        *(row(f"family {name}", one) for name, one in device["by_family"].items()),
        row("**architecture held out**", family["all"]),
        *(row(name, one) for name, one in family["by_pair"].items()),
        *(row(name, one) for name, one in family["between_machines"].items()),
        row("**model held out**", model["all"]),
        *(row(f"family {name}", one) for name, one in model["by_family"].items()),
        *(row(name, one) for name, one in model["between_machines"].items()),
        row("*in sample (what ships, on what it was fitted to)*", found["in_sample"]["all"]),
        row("*in sample: onto or off matrix units, fp16*", found["onto_or_off_matrix_units_fp16"]),
        "",
        f"Half of the width of an interval is {device['all']['half_width']:.2f} in the median (of the logarithm). "
        f"A forecast for 60 devices takes {found['speed']['sixty_devices_s']:.2f} s of processor time.",
    ]
    return "\n".join(lines)


def several(found: dict[str, Any], cost: dict[str, Any]) -> str:
    reached = found["efficiency_v100_nvlink"]
    lines = [
        "| all-reduce over | median | p90 |",
        "|---|---|---|",
        *(f"| {name} | {one['median']:.3f} | {one['p90']:.3f} |" for name, one in found["all_reduce"].items()),
        "",
        f"Efficiency of 4 and 8 V100 on NVLink, {reached['num']} published points: mean absolute error "
        f"{reached['mean_absolute_error']:.3f} (FP32 {reached['by_precision']['FP32']:.3f}, AMP "
        f"{reached['by_precision']['AMP']:.3f}), {reached['coverage']:.0%} inside the interval. The loss for each "
        "doubling (`scaling.JITTER`) was chosen on these points.",
        "",
        "A traced step takes "
        + ", ".join(f"{one['ratio']:g} times a plain one ({name})" for name, one in cost.items())
        + ".",
    ]
    return "\n".join(lines)


def operators(found: dict[str, Any]) -> str:
    lines = ["| forty operators as a step | median | p90 | bias | inside 80% |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {one['median']:.3f} | {one['p90']:.3f} | {one['bias']:+.3f} | {one['coverage']:.0%} |"
        for name, one in found.items()
    ]
    return "\n".join(lines)


def reality(found: dict[str, dict[str, Any]]) -> str:
    """What was predicted on GPUs that were there, and then measured."""
    rows = [row for one in found.values() for row in one["rows"] if row["truth_s"] is not None]
    if not rows:
        return "Not measured yet."
    lines = ["| GPU | script | predicted | step | 80% interval | measured | inside |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        mid, low, high, truth = (f"{1e3 * row[key]:.2f}" for key in ("mid_s", "low_s", "high_s", "truth_s"))
        where = f"{row['device']} | {row['script']} | {row['question']}"
        verdict = "yes" if row["inside"] else "no"
        lines.append(f"| {where} | {mid} ms | {low} to {high} ms | {truth} ms | {verdict} |")
    return "\n".join(lines)


def put(text: str, name: str, table: str) -> str:
    pattern = f"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)"
    return re.sub(pattern, lambda match: f"{match[1]}{table}\n{match[2]}", text, flags=re.DOTALL)


def main() -> None:
    results = {path.stem: json.loads(path.read_text()) for path in (HERE / "results").glob("*.json")}
    text = put(PAGE.read_text(), "pairs", pairs(results["pairs"]))
    text = put(text, "operators", operators(results["operators"]))
    text = put(text, "reality", reality({name: one for name, one in results.items() if name.startswith("reality-")}))
    PAGE.write_text(put(text, "several", several(results["several"], results["trace"])))


if __name__ == "__main__":
    main()
