"""What the items of a data set are made from: noted before the first, compared before each batch and each epoch."""

from typing import Any, final

from hotlap.data.checks.checksums import Unseen
from hotlap.data.checks.contents import Contents
from hotlap.data.checks.opened_files import OpenedFiles
from hotlap.data.checks.random_state import States, Streams
from hotlap.data.checks.watch import Watch


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
        """All of it, once `look_inside` was called: asked when an epoch begins."""
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

    def look_inside(self, *, item_s: float, num_items: int, reads_unnamed: bool) -> None:
        """Note all of it, down to the last byte, in a part of the time that so many items take.

        Arguments:
            reads_unnamed: computing an item reads from what is none of the files that are known.

        Raises:
            Unseen: it cannot be compared.
        """
        contents = Contents(self._dataset, beside=self.watch, files=self.files, item_s=item_s, num_items=num_items)
        if not self.files and not contents.has_files and reads_unnamed:
            raise Unseen("its items are read from files that cannot be told")
        self.contents = contents

    def differ(self) -> str | None:
        """What is no longer as it was noted, near the surface or deep inside; None if nothing is."""
        return self.watch.changed() or (None if self.contents is None else self.contents.differs())
