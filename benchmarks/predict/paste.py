"""results/*.json -> the tables in docs/predict.md, between their markers."""

import json
import re
from pathlib import Path
from typing import Any

from hotlap.predict import devices
from hotlap.predict.catalogue import facts

HERE = Path(__file__).parent
GPUS = HERE.parent / "results"
PAGE = HERE.parents[1] / "docs" / "predict.md"
FIGURES = PAGE.with_name("figures.md")


def judged(found: dict[str, Any]) -> str:
    """Each question beside the plain mean."""
    lines = [
        "| pairs | n | error | by chance, the 90th | plain mean | inside 80%: device held out | by chance "
        "| architecture | source | width |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for group, row in found["groups"].items():
        plain = f"{row['plain_median']:.3f} / {row['plain_p90']:.3f}"
        cells = [f"{row['num']}", _errors(row), "{:.2f} to {:.2f}".format(*row["p90 by chance"]), plain]
        inside = [f"{row[f'inside, {name} held out']:.0%}" for name in ("device", "architecture", "source")]
        cells += [inside[0], "{:.0%} to {:.0%}".format(*row["inside by chance"]), *inside[1:]]
        lines.append(f"| {group} | {' | '.join(cells)} | {row['width, device held out']:.2f} |")
    halves = "; ".join(
        f"{name} ({one['num']}): {_errors(one)}, {one['coverage']:.0%} inside an interval of {one['width']:.2f}"
        for name, one in found["half precision"].items()
    )
    two = found["two cards, no peer access"]
    lines += [
        "",
        f"Two RTX 3090 without peer access, {two['num']} trainings: the mean absolute error of the efficiency is "
        f"{two['mean_absolute_error']:.3f}, {two['coverage']:.0%} inside the interval. The rate through the host was "
        "read off these.",
        "",
        f"To half precision on one device: {halves}.",
    ]
    alone, untold = found["no measured step"], found["TF32 not told"]
    floors = (f"{name} {_errors(one)} ({one['num']})" for name, one in found["two machines, one card"].items())
    lines += [
        "",
        f"Two machines with one card (RTX 2080 Ti) differ in {' and '.join(floors)}: between sources "
        "no model of devices gets below that.",
        "",
        f'Where "fp32" is said and not whether that is TF32, between boards with it and without: {_errors(untold)}, '
        f"{untold['coverage']:.0%} inside the interval.",
        "",
        f"Without a measured step, from totals alone, {alone['num']} families of nets: {_errors(alone)}, "
        f"{alone['coverage']:.0%} inside the interval. The excess over the model is between these and an H200's.",
    ]
    return "\n".join(lines)


def _errors(row: dict[str, Any]) -> str:
    return f"{row['median']:.3f} / {row['p90']:.3f}"


def forms(found: dict[str, Any]) -> str:
    groups = list(found["kept"])
    lines = [f"| form | {' | '.join(groups)} |", f"|---|{'---|' * len(groups)}"]
    for name, row in found.items():
        lines.append(f"| {name} | {' | '.join(f'{median:.3f} / {p90:.3f}' for median, p90 in row.values())} |")
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
        "doubling (`links.JITTER`) was chosen on these points.",
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


def host(found: dict[str, Any]) -> str:
    """What one host showed, and what the model says of it since."""
    lines = ["| on an H200 | forecast | 80% interval | measured | inside |", "|---|---|---|---|---|"]
    for name, row in found["rows"].items():
        if name.endswith("record"):  # of the machine: once an option
            continue
        mid, low, high, truth = (f"{1e3 * row[key]:.3g}" for key in ("mid_s", "low_s", "high_s", "truth_s"))
        lines.append(f"| {name} | {mid} ms | {low} to {high} ms | {truth} ms | {'yes' if row['inside'] else 'no'} |")
    return "\n".join(lines)


def frozen(found: dict[str, list[dict[str, Any]]], measured: dict[str, dict[str, Any]]) -> str:
    """Forecasts that were made before a GPU was there. `measured`: what `benchmarks/gpu.sh` saw since."""
    devices = [one["device"] for one in next(iter(found.values()))]
    steps_s = {
        (one["machine"]["device"], command["name"].removeprefix("measure ")): command["saw"]["step_s"]
        for one in measured.values()
        for command in one["commands"]
        if command["name"].startswith("measure ")
    }
    were_there = sorted({device for device, _ in steps_s})
    heads = [*devices, "bound by", *(f"measured: {device}" for device in were_there)]
    lines = [f"| training | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for name, rows in found.items():
        steps = (tuple(f"{1e3 * row['step_s'][end]:.3g}" for end in ("mid", "low", "high")) for row in rows)
        cells = [f"{mid} ms ({low} to {high})" for mid, low, high in steps]
        cells += [rows[0]["bound_by"], *(f"{1e3 * steps_s[device, name]:.3g} ms" for device in were_there)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def put(text: str, name: str, table: str) -> str:
    pattern = f"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)"
    return re.sub(pattern, lambda match: f"{match[1]}{table}\n{match[2]}", text, flags=re.DOTALL)


def page(text: str) -> str:
    """docs/predict.md with the tables of the results that are there."""
    results = {path.stem: json.loads(path.read_text()) for path in (HERE / "results").glob("*.json")}
    measured = {path.stem: json.loads(path.read_text()) for path in GPUS.glob("gpu-*.json")}
    tables = {
        "judge": judged(results["judge"]),
        "frozen": frozen(results["frozen"], measured),
        "host": host(results["host"]),
        "forms": forms(results["forms"]),
        "operators": operators(results["operators"]),
        "reality": reality({name: one for name, one in results.items() if name.startswith("reality-")}),
        "several": several(results["several"], results["trace"]),
    }
    for name, table in tables.items():
        text = put(text, name, table)
    return text


def figures() -> str:
    """Every GPU of the catalogue with its figures and where they come from."""
    families = {row["family"]: row["source"] for row in facts("families.csv")}
    said = {row["key"]: row["what"] for row in facts("sources.csv")}
    of_gpus = [(*map(said.__getitem__, row["sources"].split()), families[row["family"]]) for row in facts("gpus.csv")]
    sources = list(dict.fromkeys(source for each in of_gpus for source in each))
    lines = [
        "# Figures of GPUs",
        "",
        "What `hotlap predict` takes for known; written by `benchmarks/predict/paste.py`. TFLOP/s are",
        "dense, matrix units accumulate in FP32; FP64 is that of matrix units where they have it. Sources stand below.",
        "",
        "| GPU | year | units | FP32 | FP16 matrix | TF32 | FP64 | GB/s | GiB | W | link GB/s | sources |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one, row, told in zip(devices(), facts("gpus.csv"), of_gpus, strict=True):
        rates = [f"{rate / 1e12:.1f}" if rate else "-" for rate in
                 (one.fp32, one.tensor, one.tf32, one.fp64)]  # fmt: skip
        rest = [f"{one.bandwidth / 1e9:.0f}", f"{one.memory / 2**30:g}", f"{one.power_w:g}"]
        link = f"{one.link_bytes_s / 1e9:g}" if one.link else "-"
        numbers = " ".join(str(1 + sources.index(source)) for source in told)
        lines.append(f"| {' | '.join([one.name, row['year'], str(one.units), *rates, *rest, link, numbers])} |")
    lines += ["", *(f"{number}. {source}" for number, source in enumerate(sources, 1))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    FIGURES.write_text(figures())
