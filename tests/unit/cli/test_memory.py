"""`--memory` of `hotlap tune`: where it goes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hotlap import cli
from hotlap.cli import tune, workbench
from hotlap.record import Plan, Study
from hotlap.search import StudyLog


class Noted(Exception):  # noqa: N818 - ends the study where it would begin
    pass


@pytest.mark.parametrize(("words", "given"), [(["--memory", "3GB"], 3 * 10**9), ([], None)])
def test_the_processes_of_a_study_are_told_and_the_levers_see_it(
    words: list[str], given: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    class Launcher:
        not_enclosed = None
        why_afresh = None

        def __init__(self, **settings: Any) -> None:
            seen.update(settings)

        def __enter__(self) -> "Launcher":
            return self

        def __exit__(self, *_: object) -> None:
            return

    def tuned(log: StudyLog) -> Study:
        seen["machine"] = log.machine
        raise Noted

    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOTLAP_MEMORY", raising=False)
    monkeypatch.setattr(workbench, "Launcher", Launcher)
    monkeypatch.setattr("hotlap.cli.tune.tuned", tuned)
    with pytest.raises(Noted):
        cli.main(["tune", *words, "train.py"])
    assert seen["machine"].memory_limit_bytes == given
    environment: Mapping[str, str] = seen["environment"](Plan(command=("x",), cwd="/", out=""))
    assert environment.get("HOTLAP_MEMORY") == (None if given is None else str(given))


def test_a_study_with_another_size_is_another_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keys = set()
    for words in ([], ["--memory", "1GB"], ["--memory", "2GB"]):
        args = cli.parsed(["tune", *words, "-m", "train"])
        keys.add(tune._bench(args, tune._options(args)).study.key)
    assert len(keys) == 3
