"""`hotlap apply`: write the patch of a study to the user's files, or take it back."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from hotlap.cli import storage
from hotlap.errors import UserError
from hotlap.record import Purpose, State, Study
from hotlap.report.clean import clean
from hotlap.report.outcome import accepted, again_commands, conclusion, patch_missing, runs_on, start_commands
from hotlap.report.story import script
from hotlap.source.disk import PatchFiles
from hotlap.source.file import shown
from hotlap.tune.part import part


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    if args.revert:
        return _revert(args)
    path, study = _with_patch(storage.found(args.study, command="tune"))
    part = _part(args, path, study)
    if args.diff:
        print(clean(part.patch or ""), end="")
        return 0
    files = _files(path, part)
    changed = files.apply()
    if not changed:
        by = "`hotlap apply --revert`" if _note(path).exists() else "`hotlap apply --diff | patch -R -p1`"
        print(f"The patch is applied already. {by} takes it back.")
    else:
        print(f"Applied the patch to {_list(changed)}. `hotlap apply --revert` takes it back.")
        print("\n".join([shown(runs_on(part) or ""), *_start_lines(part)]))
    if part is not study:
        print("The study measured its levers together; the gain of this part alone was not confirmed.")
    return 0


def _part(args: argparse.Namespace, path: Path, study: Study) -> Study:
    """The study as it is, or as if it had come to the levers that the user wants."""
    if args.only is None and args.without is None:
        return study
    if _files(path, study).in_place():
        raise UserError("A patch of this study is applied. Take it back first, with `hotlap apply --revert`.")
    return part(study, only=args.only or (), without=args.without or ())


def _revert(args: argparse.Namespace) -> int:
    if args.only is not None or args.without is not None or args.diff:
        raise UserError("--revert takes back all that was applied; --only, --without and --diff do not go with it.")
    files = _files(*_applied(args.study))
    changed = files.revert()
    if not changed:
        print("The patch is not applied, so there is nothing to take back.")
    else:
        print(f"Took the patch back: {_list(changed)} {'is' if len(changed) == 1 else 'are'} as before.")
    return 0


def _with_patch(found: Sequence[tuple[Path, Study]]) -> tuple[Path, Study]:
    """The first of them that has a patch; there is one study at least."""
    for path, study in found:
        if study.patch is not None and study.changes:
            return path, study
    raise UserError(_no_patch(*found[0]))


def _applied(name: str | None) -> tuple[Path, Study]:
    """The study here, or of those that the user named, whose patch was applied last."""
    paths = storage.studies(Path.cwd()) if name is None else [path for path, _ in storage.found(name, command="tune")]
    applied = [path for path in paths if _note(path).exists()]
    if applied:
        path = max(applied, key=lambda path: _note(path).stat().st_mtime_ns)
        return path, storage.read(path)
    return _with_patch(storage.found(name, command="tune"))


def _note(path: Path) -> Path:
    """The file that is there while the patch of the study at `path` is applied."""
    return _home(path) / "applied.json"


def _files(path: Path, study: Study) -> PatchFiles:
    return PatchFiles(study=study, home=_home(path), roots=_roots(path, study))


def _home(path: Path) -> Path:
    """Where the study at `path` keeps what it needs to take its patch back."""
    return path.parent if path.name == "study.json" else path.with_name(f"{path.name}.applied")


def _roots(path: Path, study: Study) -> list[Path]:
    """The folders that the study may change files in: where it was made, and where its script is.

    The study itself says where that is, and a file may say anything: so it must lie there, or be used there.
    """
    cwd = Path(study.cwd)
    hotlap = path.resolve().parent.parent
    lies_there = hotlap.name == ".hotlap" and hotlap.parent == cwd.resolve()
    if not cwd.is_absolute() or not (lies_there or cwd.resolve().is_relative_to(Path.cwd().resolve())):
        raise UserError(f"This study was made in {shown(study.cwd)}. Go there to apply it.")
    script = next((Path(source) for run in study.baseline[:1] for source in run.sources), None)
    return [cwd] if script is None or script.is_relative_to(cwd) else [cwd, script.parent]


def _no_patch(path: Path, study: Study) -> str:
    """Why there is nothing to apply."""
    if study.state is not State.COMPLETE:
        return f"The study {path.parent.name} is not complete, so it has no patch yet: run `hotlap tune` again."
    start = _start_lines(study)
    if start:
        return f"The study {path.parent.name} has no patch. {' '.join(start)}"
    if accepted(study):
        return f"The study {path.parent.name}: {patch_missing(study)}"
    if study.purpose is Purpose.MEASURE:
        tune = shown(f"hotlap tune {script(study)}")
        return f"The study {path.parent.name} only measured, so it has no patch: `{tune}` tries what makes it faster."
    found = conclusion(study)
    again = "".join(f" `{shown(command)}` {what}." for command, what in again_commands(study))
    return f"The study {path.parent.name} has no patch. {found.title}: {clean(found.sentence)}{again}"


def _start_lines(study: Study) -> tuple[str, ...]:
    return tuple(f"To start it: {shown(command)}" for command, _ in start_commands(study))


def _list(paths: list[Path]) -> str:
    return ", ".join(shown(os.path.relpath(path)) for path in paths)
