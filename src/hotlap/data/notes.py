"""What a loader of ours has to say: sentences for the user, and for the record."""

from typing import final

from hotlap import at_work


@final
class Notes:
    """The last sentence; each goes into the record as well."""

    def __init__(self) -> None:
        self.last: str | None = None

    def say(self, note: str) -> None:
        """Once: the same sentence twice in a row is one."""
        if note != self.last:
            self.last = note
            at_work.note(note)
