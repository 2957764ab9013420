"""Study, names of levers -> the same study with only their part of the patch."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hotlap import levers, source
from hotlap.errors import UserError
from hotlap.record import LeverSpec, Study
from hotlap.search import facts

_OURS = "hotlap"


def part(study: Study, *, only: Sequence[str] = (), without: Sequence[str] = ()) -> Study:
    """The study as if it had come to fewer levers; their patch is written anew, from what was recorded.

    Args:
        only: Names of the levers to keep; empty: all.
        without: Names of those to leave out; "hotlap": all whose part needs hotlap when the script runs.

    Raises:
        UserError: a name is none of the study's levers, nothing is left, or a file changed since.
    """
    accepted = study.result.levers if study.result is not None else ()
    run = facts(study)
    if _OURS in without:
        ours = [str(spec["name"]) for spec in accepted if levers.imports_hotlap(spec, run)]
        without = [*ours, *(name for name in without if name != _OURS)]
    kept = _kept(accepted, only=only, without=without)
    if kept == accepted:
        return study
    patched = source.patch(levers.edits_of(kept, run), root=Path(study.cwd))
    if not patched.texts or study.result is None:
        raise UserError(f"{_names(kept)} alone would change no source file, so there is nothing to apply.")
    names = levers.environment_of(kept, {})
    environment = {name: value for name, value in study.result.environment.items() if name in names}
    result = replace(study.result, levers=kept, environment=environment)
    return replace(study, result=result, patch=patched.diff, changes=patched.changes)


def _kept(accepted: Sequence[LeverSpec], *, only: Sequence[str], without: Sequence[str]) -> tuple[LeverSpec, ...]:
    known = {str(spec["name"]) for spec in accepted}
    unknown = sorted({*only, *without} - known)
    if unknown:
        raise UserError(f"The study did not come to a lever {unknown[0]!r}. Its levers: {_names(accepted)}.")
    kept = tuple(spec for spec in accepted if (not only or spec["name"] in only) and spec["name"] not in without)
    if not kept:
        raise UserError(f"That leaves no lever to apply. The study's levers: {_names(accepted)}.")
    return kept


def _names(specs: Sequence[LeverSpec]) -> str:
    return ", ".join(str(spec["name"]) for spec in specs) or "none"
