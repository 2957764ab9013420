"""What the items of a data set are made from: noted before the first, compared before each batch and each epoch."""

import hashlib
import os
import platform
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any, final

import numpy as np
import torch

from hotlap.data.checks.look import NAME_S, FirstLook, Held, Look, as_held, of_array, of_tensor, with_names
from hotlap.data.checks.opened_files import OpenedFiles
from hotlap.data.checks.random_state import States, Streams
from hotlap.data.checks.watch import Watch
from hotlap.data.item.codec import CannotKeep

# What looking into a data set may take, as a part of the time that its items would take, and in any case. An epoch
# over kept items takes a tenth of that time, so that some gain is left; whether it is enough, a trial shows.
SHARE = 0.5
LEAST_S = 0.25
# The first look is paid once, as filling is, and takes some times as long: it is paid back within the second epoch.
FIRST_SHARE = 1.0

# Beyond this a run would wait longer for the key than it is worth.
_MOST_FILES = 200_000

# Folders below a named one that are written to without any data being changed.
_NO_DATA = {".git", ".hotlap", "__pycache__"}

Stamped = tuple[str, int, int, int]
"""(name, time in ns, bytes, number); of a folder the name alone, and zeros."""


@final
class Inputs:
    """Of one data set, as they were when this was made, or `note` called last."""

    watch: Watch
    """What is near its surface: asked before each batch."""
    streams: Streams
    """The random generators that an item might draw from."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.files = OpenedFiles(shared=True)
        """Those that items are read from, in this process and in its copies."""
        self.contents: Contents | None = None
        """All of it, once it was looked into: asked when an epoch begins."""
        self.note()

    def note(self) -> None:
        """Take them as they are now: a file that is opened with the very first item is no change."""
        self.watch = Watch(self._dataset)
        self.streams = Streams(self.watch.streams)

    def why_not_kept(self, before: States) -> str | None:
        """What computing an item has done that forbids to keep it; `before`: of the generators."""
        drawn = self.streams.drawn(before)
        if drawn is not None:
            return f"an item of {type(self._dataset).__name__} draws random numbers (from {drawn})"
        changed = self.watch.changed_by_item()
        return None if changed is None else f"computing an item changes {changed} of the data set"

    def why_not_left(self) -> str | None:
        """What forbids that a later run finds its items, all of which were computed now; None if nothing does."""
        assert self.contents is not None  # it has given the key
        if self.watch.changed() or self.contents.differs():
            return "it was changed while its items were computed"
        path = self.contents.opened_unnamed()
        return None if path is None else f"its items are read from {path}, which no text in it names"


@final
class Contents:
    """All that a data set consists of, and whether that has changed, in all its depth: asked once an epoch."""

    def __init__(self, root: Any, beside: Watch, files: OpenedFiles, *, item_s: float, num_items: int) -> None:
        """Looks into everything at once.

        Arguments:
            beside: made before, over the same root. What it compares, more often and knowing what items themselves
                change, is taken as it was.
            files: those that items are read from.
            item_s: seconds that an item takes, of `num_items` in all.

        Raises:
            CannotKeep: it holds what cannot be compared, or so much that it takes too long.
        """
        self._root, self._files = root, files
        self.named = OpenedFiles()
        """Files that the data set names, or has open."""
        held: Held = {at: with_names(one.keys(), one.values) for at, one in beside.places.items()}
        for values in held.values():
            values[:] = as_held(values, held)
        self._held = held
        self._texts: dict[str, None] = {}
        self._stamps: list[Stamped] = []
        """What the key holds of files."""
        self._item_s = item_s
        self._share, self._spent_s, self._saved_s = FIRST_SHARE, 0.0, item_s * num_items
        self._first = FirstLook(root, held, self._spend, self._note)
        self._share, self._spent_s, self._again_s = SHARE, 0.0, self._spent_s

    def changed(self, num_served: int = 0) -> str | None:
        """What is no longer as it was; None if nothing is. `num_served`: items that were not computed since last time.

        Raises:
            CannotKeep: looking takes too large a part of what is saved.
        """
        self._saved_s += self._item_s * num_served
        self._spend(self._again_s)
        return self.differs()

    def differs(self) -> str | None:
        """As `changed`, whatever it takes."""
        first, nothing = self._first, lambda _: None
        try:
            changed = self.changed_for_copies()
            if changed is None:
                held = self._root, self._held
                now = FirstLook(*held, nothing, nothing) if first.sorts else Look(*held, nothing)
                changed = None if now.digest == first.digest else "the content"
            return changed
        except CannotKeep as reason:
            return f"the content ({reason})"

    def changed_for_copies(self) -> str | None:
        """What copies of this process, made before, find changed as well: shared memory, a file; None if nothing is."""
        for value, number in self._first.shared:
            if number != (of_tensor(value) if isinstance(value, torch.Tensor) else of_array(value)):
                return "what is in shared memory"
        path = self.named.changed() or self._files.changed()
        return None if path is None else f"the file {path}"

    def opened_unnamed(self) -> str | None:
        """What items have opened and no key holds; None if there is nothing."""
        known = {os.path.abspath(name) for name, *_ in self._stamps}
        names = (name for name in self._files.names() if not {name, os.path.dirname(name)} & known)
        return next(names, None)

    def key(self) -> str:
        """Under which a later run finds the items computed before, where all that they are made from is the same:
        versions of libraries too, and size and time of every file that a text names, or that is below a folder that one
        names. Where files alone have changed, what is in front of the hyphen is the same.

        Raises:
            CannotKeep: the content of the data set cannot be told.
        """
        if self._first.names_file is not None:
            raise CannotKeep(self._first.names_file)
        versions = [(name, str(getattr(sys.modules.get(name), "__version__", ""))) for name in self._first.libraries]
        about = platform.python_version(), torch.__version__, np.__version__, sys.byteorder, self._first.digest
        self._stamps = _stamps(self._texts)
        named = {name for name, *_ in self._stamps}.intersection(self._texts)
        return f"{_digest(about, versions, sorted(map(os.path.abspath, named)))}-{_digest(self._stamps)}"

    def _note(self, text: str) -> None:
        if 0 < len(text) < 1024 and "\n" not in text and "\0" not in text:
            self._texts[text] = None
            # It takes 1 us to ask for a file, and texts may be many.
            if "/" in text or "\\" in text or 0 < len(text) - text.rfind(".") <= 8:
                self._spend(NAME_S)
                self.named.note(text, only_files=True)

    def _spend(self, cost_s: float) -> None:
        self._spent_s += cost_s
        if self._spent_s > LEAST_S + self._share * self._saved_s:
            raise CannotKeep(
                f"it holds so much that looking for changes takes {self._spent_s:.2g} s, more than {self._share:.0%} "
                f"of the {self._saved_s:.2g} s that its items take"
            )


def _digest(*facts: object) -> str:
    return hashlib.blake2b(repr(facts).encode(), digest_size=20).hexdigest()


def _stamps(texts: Iterable[str]) -> list[Stamped]:
    """Of each file that has one of these names, and of those below each folder; and of that and of folders below."""
    found = dict[str, Stamped]()
    for path in chain.from_iterable(_with_all_below(text) for text in texts if text not in found):
        if path not in found:
            with suppress(OSError, ValueError):
                one = os.stat(path)
                is_folder = stat.S_ISDIR(one.st_mode)
                found[path] = (path, 0, 0, 0) if is_folder else (path, one.st_mtime_ns, one.st_size, one.st_ino)
        if len(found) > _MOST_FILES:
            raise CannotKeep(f"it names more than {_MOST_FILES} files")
    return [*found.values()]


def _with_all_below(name: str) -> Iterator[str]:
    """A file; or of a folder each folder that may hold data, once, and the files in it."""
    if not os.path.isdir(name):
        yield name
        return
    seen = set[str]()
    for folder, folders, files in os.walk(name, followlinks=True):
        real = os.path.realpath(folder)
        above = folder != name and f"{os.path.realpath(os.path.dirname(folder))}/".startswith(f"{real}/")
        if above or real in seen:
            folders.clear()  # a link to what it lies in, or to what was seen under another name
        else:
            seen.add(real)
            folders[:] = sorted({*folders} - _NO_DATA)
            yield folder
            yield from (os.path.join(folder, file) for file in sorted(files))
