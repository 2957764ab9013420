"""README and docs are up to date: with the figures in benchmarks/results, and with the docstrings."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.benchmark_files import benchmark

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def paste() -> ModuleType:
    return benchmark("paste.py")


RESULTS = {
    "demo": {
        "machine": {"processor": "ours", "threads": 2},
        "output": "step 3.2 ms\n",
        "claims": [
            {"claim": "the demo is faster", "low": 4.712, "mid": 4.871, "high": 5.04, "unit": "x"},
            {"claim": "claims of a gain in 1,000 A/A studies", "mid": 3},
        ],
        "results": [
            {"lever": "threads", "gain": 1.0932, "step_s": 0.00231},
            {"lever": "a|b\nc", "gain": None, "step_s": None},
        ],
    }
}


def test_readme_and_docs_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "paste.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run python benchmarks/paste.py"


def test_blocks_are_filled_and_the_rest_is_left(paste: ModuleType) -> None:
    text = "before\n<!-- paste: output demo -->\nold\n<!-- end paste -->\nafter\n"
    new = paste.pasted(text, RESULTS)
    assert new == ("before\n<!-- paste: output demo -->\n```text\nstep 3.2 ms\n```\n<!-- end paste -->\nafter\n")
    assert paste.pasted(new, RESULTS) == new


def test_claims_show_the_interval_and_where_they_come_from(paste: ModuleType) -> None:
    rows = paste.block("claims", RESULTS, folder="results").splitlines()
    assert rows[0] == "| claim | measured | on | by |"
    link = "[demo](results/demo.json)"
    assert rows[2] == f"| the demo is faster | 4.87x [4.71, 5.04] | processor ours, threads 2 | {link} |"
    assert "| 3 |" in rows[3]


def test_claims_are_chosen_by_result_and_by_their_first_words(paste: ModuleType) -> None:
    told = {"device": "cpu-2core", "processor": "Ours 1", "load": 0.5}
    results = {
        "aa-cpu-2core": {"machine": told, "claims": [{"claim": "gains claimed", "mid": 0}]},
        "aabb": {"claims": [{"claim": "something else", "mid": 1}]},
        "demo": {"machine": told, "claims": [{"claim": "ours", "mid": 1.5}, {"claim": "theirs", "mid": 2.5}]},
    }
    assert paste.block("claims demo:ours aa", results).splitlines()[2:] == [
        "| ours | 1.5 | cpu-2core, load 0.5 | `demo` |",
        "| gains claimed | 0 | cpu-2core, load 0.5 | `aa-cpu-2core` |",
        "",
        "cpu-2core has one Ours 1.",
    ]


@pytest.mark.parametrize(("figure", "text"), [(4.871, "4.87"), (1782.3, "1,780"), (-33600.0, "-33,600"), (12, "12")])
def test_figures_have_three_digits_and_no_powers_of_ten(paste: ModuleType, figure: float, text: str) -> None:
    assert paste.number(figure) == text


def test_of_an_output_one_section_can_be_shown(paste: ModuleType) -> None:
    results = {"demo": {"output": "Findings\n  slow   \n         \n  still\n\nPatch\n  +x\n"}}
    assert paste.block("output demo Findings", results) == "```text\nFindings\n  slow\n\n  still\n```\n"
    assert paste.block("output demo Patch", results) == "```text\nPatch\n  +x\n```\n"
    with pytest.raises(ValueError, match="begins with 'Speed-up'"):
        paste.block("output demo Speed-up", results)


LAB = {
    "story": ["It is slow.", "It is small."],
    "notes": [],
    "tables": [
        {
            "title": "Products",
            "columns": ["n", "NumPy", "RTX 4090"],
            "rows": [
                [
                    "200",
                    {"value": 0.0012, "unit": "s"},
                    {"value": 2e-5, "unit": "s", "low": 1e-5, "high": 4e-5, "predicted": True},
                ],
                ["a|b", None, {"value": 2.0, "unit": "s", "low": 1.8, "high": 2.2}],
            ],
            "note": "One thread.",
        }
    ],
}


def test_a_lab_shows_its_story_and_its_tables_and_what_is_predicted(paste: ModuleType) -> None:
    assert paste.block("lab launch-floor story notes", {"lab_launch_floor": LAB}) == "It is slow.\n\nIt is small.\n"
    assert paste.block("lab launch-floor notes", {"lab_launch_floor": LAB}) == ""
    assert paste.block("lab launch-floor tables", {"lab_launch_floor": LAB}).splitlines() == [
        "**Products**",
        "",
        "| n | NumPy | RTX 4090 |",
        "| --- | --- | --- |",
        "| 200 | 1.20 ms | ~20.0 us (10.0 to 40.0 us) |",
        "| a\\|b | - | 2.00 s (1.80 to 2.20 s) |",
        "",
        "One thread. ~ is predicted, not measured; in parentheses the 80% interval.",
    ]


def test_a_table_holds_what_would_break_it(paste: ModuleType) -> None:
    assert paste.block("table demo", RESULTS).splitlines()[2:] == ["| threads | 1.09 | 2.31 ms |", "| a\\|b c |  |  |"]


def test_a_table_has_the_columns_that_were_asked_for(paste: ModuleType) -> None:
    rows = paste.block("table demo step_s lever", RESULTS).splitlines()
    assert rows[0] == "| step_s | lever |"
    assert rows[2] == "| 2.31 ms | threads |"


@pytest.mark.parametrize("what", ["claims", "output demo", "table demo", "lab transfer story"])
def test_without_a_result_it_says_so(paste: ModuleType, what: str) -> None:
    assert paste.block(what, {}) == "Not measured yet.\n"


def test_an_unknown_block_is_an_error(paste: ModuleType) -> None:
    with pytest.raises(ValueError, match="there is no block 'graph demo'"):
        paste.block("graph demo", RESULTS)
    with pytest.raises(ValueError, match="does not name its result"):
        paste.block("table", RESULTS)


def test_every_result_in_the_repository_can_be_read(paste: ModuleType) -> None:
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        json.loads(path.read_text())
    assert isinstance(paste.read(ROOT / "benchmarks" / "results"), dict)


def test_every_marker_has_its_end() -> None:
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        markers = re.findall(r"^<!-- (paste:|end paste)", path.read_text(), re.MULTILINE)
        assert markers[::2] == ["paste:"] * (len(markers) // 2)
        assert markers[1::2] == ["end paste"] * (len(markers) // 2)


def test_what_is_older_than_the_code_is_named_and_left_out_of_the_readme(paste: ModuleType) -> None:
    text = "<!-- paste: claims -->\n<!-- end paste -->\n<!-- paste: table demo lever -->\n<!-- end paste -->\n"
    docs = paste.pasted(text, RESULTS, older=["demo"])
    assert docs.count("Older than the code that is measured: demo.\n") == 2
    assert "the demo is faster" in docs
    readme = paste.pasted("<!-- paste: claims -->\n<!-- end paste -->\n", RESULTS, folder="results", older=["demo"])
    assert readme.splitlines()[1] == "Left out, for the code that is measured has changed since: demo."
    # A check takes from the text which are older, and asks for nothing else.
    assert set(paste.named_older(docs)) == set(paste.named_older(readme)) == {"demo"}
    assert paste.named_older(paste.pasted(text, RESULTS)) == []


def test_a_ratio_whose_interval_holds_one_has_no_middle(paste: ModuleType) -> None:
    assert paste.value({"mid": 1.07, "low": 0.972, "high": 1.18, "unit": "x"}) == "not told from 1x [0.972, 1.18]"
    assert paste.value({"mid": 1.07, "low": 1.02, "high": 1.18, "unit": "x"}) == "1.07x [1.02, 1.18]"


def test_other_code_makes_a_result_older_and_other_words_do_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    origin = benchmark("origin.py")
    monkeypatch.setattr(origin, "ROOT", tmp_path)
    monkeypatch.setattr(origin, "SOURCES", tmp_path)
    (tmp_path / "gate").mkdir()
    file = tmp_path / "gate" / "margin.py"
    file.write_text('"""A margin."""\nMARGIN = 3\n')
    result = origin.of("gate-cpu-2core")
    assert not origin.is_older("gate-cpu-2core", result)
    file.write_text('"""What may differ."""\n\n\nMARGIN = 3  # times\n')
    assert not origin.is_older("gate-cpu-2core", result)
    file.write_text('"""A margin."""\nMARGIN = 4\n')
    assert origin.is_older("gate-cpu-2core", result)
    assert origin.is_older("gate-cpu-2core", {}), "nobody wrote down what it measured"
