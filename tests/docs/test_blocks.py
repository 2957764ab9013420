"""Every block of code in README and docs is run in a temporary folder, or says why it cannot be."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from hotlap.cli import build_parser
from hotlap.cli.words import split_command
from tests.docs.blocks import DATA, PYTHON, ROOT, SHELL, SHOWN, Block, When, blocks, commands, pages
from tests.docs.workshop import Workshop

ALL = {page: blocks(page) for page in pages()}
FRAMEWORKS = {"accelerate", "lightning", "transformers", "IPython"}
RUN = {When.ALWAYS, When.SLOW}

# Each is a block that nobody runs; a longer list is a decision.
MOST_NOT_RUN = 16


def with_blocks(*, slow: bool) -> list[Path]:
    """Pages that have something to run; for the slow test only those that the fast one leaves something of."""
    wanted = When.SLOW if slow else When.ALWAYS
    return [
        page for page, found in ALL.items() if any(one.when is wanted and one.language not in SHOWN for one in found)
    ]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("quick"), quick=True)


@pytest.fixture(scope="module")
def thorough(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("thorough"), quick=False)


@pytest.mark.e2e
@pytest.mark.parametrize("page", with_blocks(slow=False), ids=name)
def test_the_blocks_of_a_page_run(page: Path, quick: Workshop) -> None:
    run(page, quick, {When.ALWAYS})


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", with_blocks(slow=True), ids=name)
def test_a_page_runs_as_it_stands(page: Path, thorough: Workshop) -> None:
    run(page, thorough, RUN)


def run(page: Path, workshop: Workshop, wanted: set[When]) -> None:
    chosen = [block for block in ALL[page] if block.when in wanted]
    missing = sorted(module for module in imported(chosen) if find_spec(module) is None)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (--group frameworks)")
    workshop.run(chosen)


def imported(chosen: list[Block]) -> set[str]:
    """Frameworks that the Python blocks import; all else comes with hotlap."""
    code = "\n".join(block.code for block in chosen if block.language in PYTHON)
    return FRAMEWORKS & set(re.findall(r"^\s*(?:import|from) (\w+)", code, re.MULTILINE))


@pytest.mark.parametrize("page", ALL, ids=name)
def test_every_block_says_what_language_it_is_in(page: Path) -> None:
    known = PYTHON | SHELL | DATA | SHOWN
    assert [block.place for block in ALL[page] if block.language not in known] == []


@pytest.mark.parametrize("page", ALL, ids=name)
def test_a_block_that_is_not_run_gives_a_sentence_for_it(page: Path) -> None:
    for block in ALL[page]:
        assert block.when is When.ALWAYS or (len(block.why.split()) >= 3 and block.why.endswith(".")), block.place


def test_few_blocks_are_not_run() -> None:
    left = [block.place for found in ALL.values() for block in found if block.when not in RUN]
    assert len(left) <= MOST_NOT_RUN, left


def hotlap_lines() -> Iterator[tuple[str, str]]:
    """(Place, words behind `hotlap`) of each call in a block of shell commands, run or not."""
    for found in ALL.values():
        for block in found:
            if block.language in SHELL:
                joined = commands(block).replace("\\\n", " ")
                for match in re.finditer(r"^[^#\n]*?\bhotlap ([a-z][^\n#|;&>)]*)", joined, re.MULTILINE):
                    yield block.place, match[1].strip()


@pytest.mark.parametrize(("place", "words"), [pytest.param(*found, id=found[0]) for found in hotlap_lines()])
def test_every_call_of_hotlap_is_one_that_hotlap_understands(place: str, words: str) -> None:
    head, _ = split_command([word.replace("$", "") for word in shlex.split(words)], build_parser())
    build_parser().parse_args(head)


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=name)
def test_links_of_pages_outside_of_the_site_lead_somewhere(page: Path) -> None:
    # mkdocs looks at those inside.
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_blocks_are_found_with_their_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '# Title\n\n```python title="a.py"\nx = 1\n```\n\n'
        "1. item\n\n    <!-- run: gpu; It needs one. -->\n    ```console\n    $ ls\n    a.py\n    ```\n"
    )
    first, second = blocks(page)
    assert (first.language, first.title, first.code, first.when, first.line) == (
        "python", "a.py", "x = 1\n", When.ALWAYS, 3
    )  # fmt: skip
    assert (second.when, second.why, commands(second), second.line) == (When.GPU, "It needs one.", "ls\n", 10)


def test_a_block_that_fails_fails_the_test(tmp_path: Path) -> None:
    for language, code in (("sh", "echo told; false | cat\n"), ("python", "assert 1 == 2\n")):
        made = Block(
            page=ROOT / "README.md", line=7, language=language, title=None, code=code, when=When.ALWAYS, why=""
        )
        (tmp_path / language).mkdir()
        with pytest.raises(AssertionError, match=r"README\.md:7 left with 1"):
            Workshop(tmp_path / language, quick=True).run([made])


def test_what_was_run_once_is_put_back(tmp_path: Path) -> None:
    made = Block(
        page=ROOT / "README.md", line=7, language="sh", title=None, code="date +%s%N > when\n", when=When.ALWAYS, why=""
    )
    workshop = Workshop(tmp_path, quick=True)
    workshop.run([made])
    first = (workshop.folder / "when").read_text()
    workshop.run([replace(made, code="date +%s%N > when  # the same with a comment\n")])
    assert (workshop.folder / "when").read_text() == first
    workshop.run([replace(made, code="date +%s%N >> when\n")])
    assert (workshop.folder / "when").read_text() != first
