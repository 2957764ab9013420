"""Study, names of levers -> the same study with only their part of the patch."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hotlap import levers, source
from hotlap.errors import UserError
from hotlap.record import LeverSpec, Run, Study


def facts(study: Study) -> Run:
    """The script as written, with all that was found out about its loaders, and what the first look watched for."""
    first = study.baseline[0]
    run = next((run for run in study.baseline if run.batch_digest is not None), first)
    known = {site.calls for site in run.call_sites}
    watched = tuple(site for site in first.call_sites if site.calls not in known)
    return replace(
        run,
        switches=first.switches,
        shapes=first.shapes,
        sightings=first.sightings,
        call_sites=(*run.call_sites, *watched),
    )


def part(study: Study, *, only: Sequence[str] = (), without: Sequence[str] = ()) -> Study:
    """The study as if it had come to fewer levers; their patch is written anew, from what was recorded.

    Args:
        only: Names of the levers to keep; empty: all.
        without: Names of those to leave out.

    Raises:
        UserError: a name is none of the study's levers, nothing is left, or a file changed since.
    """
    accepted = study.result.levers if study.result is not None else ()
    kept = _kept(accepted, only=only, without=without)
    if kept == accepted:
        return study
    edits = [edit for spec in kept for edit in levers.from_spec(spec).edits(facts(study))]
    patched = source.patch(edits, root=Path(study.cwd))
    if not patched.texts or study.result is None:
        raise UserError(f"{_names(kept)} alone would change no source file, so there is nothing to apply.")
    return replace(study, result=replace(study.result, levers=kept), patch=patched.diff, changes=patched.changes)


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
