"""Whether what items are made from is what it was, in all its depth: asked once an epoch."""

import hashlib
import os
import platform
import stat
import sys
from collections.abc import Iterable
from typing import Any, final

import numpy as np
import torch

from hotlap.data.checks.checksums import Unseen, of_array, of_tensor
from hotlap.data.checks.look import NAME_S, FirstLook, Held, HeldPlace, Look, as_held
from hotlap.data.checks.opened_files import OpenedFiles
from hotlap.data.checks.watch import Watch

# What looking into a data set may take, as a part of the time that its items would take, and in any case. An epoch
# over kept items takes a tenth of that time, so that some gain is left; whether it is enough, a trial shows.
SHARE = 0.5
LEAST_S = 0.25
# The first look is paid once, as filling is, and takes some times as long: it is paid back within the second epoch.
FIRST_SHARE = 1.0

# Beyond this a run would wait longer for the key than it is worth.
_MOST_FILES = 200_000


@final
class Contents:
    """All that a data set consists of, and whether that has changed: asked when an epoch begins.

    What `beside` compares, which is asked more often and knows what items themselves change, is taken as it was.
    """

    def __init__(
        self,
        root: Any,
        *,
        beside: Watch,
        files: OpenedFiles,
        item_s: float,
        num_items: int,
    ) -> None:
        """Looks into everything at once.

        Arguments:
            beside: a `Watch` over the same root, made before.
            files: those that items are read from.
            item_s: seconds that an item takes, of `num_items` in all.

        Raises:
            Unseen: it holds what cannot be compared, or so much that it takes too long.
        """
        self._root, self._files, self._named = root, files, OpenedFiles()
        self._held: Held = {}
        for place, one in beside.places.items():
            names = () if one.keys is None else one.keys()
            self._held[place] = HeldPlace(",".join(map(str, names)), [*one.values])
        for each in self._held.values():
            each.values[:] = as_held(each.values, self._held)
        self._texts: dict[str, None] = {}
        self._item_s = item_s
        self._share, self._spent_s, self._saved_s = FIRST_SHARE, 0.0, item_s * num_items
        self._first = FirstLook(root, self._held, self._spend, self._note)
        self._share, self._spent_s, self._again_s = SHARE, 0.0, self._spent_s

    def changed(self, num_served: int = 0) -> str | None:
        """What is no longer as it was; None if nothing is. `num_served`: items that were not computed since last time.

        Raises:
            Unseen: looking takes too large a part of what is saved.
        """
        self._saved_s += self._item_s * num_served
        self._spend(self._again_s)
        return self.differs()

    @property
    def has_files(self) -> bool:
        """True if the data set names files, or has them open."""
        return bool(self._named)

    def differs(self) -> str | None:
        """As `changed`, whatever it takes."""
        changed = self.changed_for_copies()
        if changed is not None:
            return changed
        try:
            now = self._look_again()
        except Unseen as reason:
            return f"the content ({reason})"
        return None if now.digest == self._first.digest else "the content"

    def changed_for_copies(self) -> str | None:
        """What copies of this process, made before, find changed as well: shared memory, a file; None if nothing is."""
        for value, number in self._first.shared:
            if number != (of_tensor(value) if isinstance(value, torch.Tensor) else of_array(value)):
                return "what is in shared memory"
        paths = (files.changed() for files in (self._named, self._files))
        return next((f"the file {path}" for path in paths if path is not None), None)

    def key(self) -> str:
        """Under which a later run finds the items computed before, where all that they are made from is the same:
        versions of libraries too, and size and time of every file and folder that a text names.

        Raises:
            Unseen: the content of the data set cannot be told.
        """
        if self._first.names_file is not None:
            raise Unseen(self._first.names_file)
        versions = [(name, str(getattr(sys.modules.get(name), "__version__", ""))) for name in self._first.libraries]
        about = platform.python_version(), torch.__version__, np.__version__, sys.byteorder, self._first.digest
        facts = repr((about, versions, _stamps(self._texts)))
        return hashlib.blake2b(facts.encode(), digest_size=20).hexdigest()

    def _look_again(self) -> Look:
        if self._first.sorts:
            return FirstLook(self._root, self._held, lambda _: None, lambda _: None)
        return Look(self._root, self._held, lambda _: None)

    def _note(self, text: str) -> None:
        if 0 < len(text) < 1024 and "\n" not in text and "\0" not in text:
            self._texts[text] = None
            # It takes 1 us to ask for a file, and texts may be many.
            if "/" in text or "\\" in text or 0 < len(text) - text.rfind(".") <= 8:
                self._spend(NAME_S)
                self._named.note(text, only_files=True)

    def _spend(self, cost_s: float) -> None:
        self._spent_s += cost_s
        if self._spent_s > LEAST_S + self._share * self._saved_s:
            raise Unseen(
                f"it holds so much that looking for changes takes {self._spent_s:.2g} s, more than {self._share:.0%} "
                f"of the {self._saved_s:.2g} s that its items take"
            )


def _stamps(texts: Iterable[str]) -> list[tuple[str, int, int, int]]:
    """Of each file that has one of these names, and of those below each folder: (name, time, bytes, number)."""
    found = dict[str, tuple[str, int, int, int]]()

    def is_folder(path: str) -> bool:
        try:
            one = os.stat(path)
        except (OSError, ValueError):
            return False
        if len(found) == _MOST_FILES:
            raise Unseen(f"it names more than {_MOST_FILES} files")
        found[path] = path, one.st_mtime_ns, one.st_size, one.st_ino
        return stat.S_ISDIR(one.st_mode)

    for text in texts:
        if text not in found and is_folder(text):
            for folder, folders, files in os.walk(text):
                folders.sort()
                for file in sorted(files):
                    is_folder(os.path.join(folder, file))
    return [*found.values()]
