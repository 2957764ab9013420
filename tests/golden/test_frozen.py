"""The command line and the JSON, frozen: other people's scripts rely on both, so a change is a decision.

`pytest tests/golden --regen` takes what is there now.
"""

import json
from pathlib import Path

import msgspec
import pytest

from hotlap import cli
from hotlap.cli import words
from hotlap.record import Plan, Study

FOLDER = Path(__file__).parent / "frozen"
COMMANDS = {
    "hotlap": ["--help"],
    **{f"hotlap-{name}": [name, "--help"] for name in words.commands(cli.build_parser())},
}


def compare(name: str, text: str, *, regen: bool) -> None:
    path = FOLDER / name
    if regen:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_is_as_it_was(
    name: str, regen: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as left:
        cli.main(COMMANDS[name])
    assert left.value.code == 0
    compare(f"{name}.txt", capsys.readouterr().out, regen=regen)


@pytest.mark.parametrize("kind", [Study, Plan])
def test_the_json_schema_is_as_it_was(kind: type[Study | Plan], regen: bool) -> None:
    schema = json.dumps(without_docs(msgspec.json.schema(kind)), indent=1, sort_keys=True) + "\n"
    compare(f"{kind.__name__.lower()}.schema.json", schema, regen=regen)


def without_docs(schema: object) -> object:
    """The schema without descriptions: a better docstring is no decision."""
    if isinstance(schema, dict):
        return {key: without_docs(value) for key, value in schema.items() if key != "description"}
    return [without_docs(value) for value in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize(
    "key",
    ["schema", "baseline", "findings", "ceilings", "trials", "result", "patch", "predictions"],
)
def test_the_keys_that_others_were_promised_are_there(key: str) -> None:
    assert key in msgspec.json.schema(Study)["$defs"]["Study"]["properties"]
