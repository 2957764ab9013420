"""What a loader of ours has to say: sentences for the user, and for the record."""

from collections.abc import Callable
from typing import final


@final
class Notes:
    """The last sentence, and who is told of each."""

    def __init__(self) -> None:
        self.last: str | None = None
        self.on_note: Callable[[str], None] | None = None

    def say(self, note: str) -> None:
        """Once: the same sentence twice in a row is one."""
        if note != self.last:
            self.last = note
            if self.on_note is not None:
                self.on_note(note)
