"""Which thread trains? The hooks pass over all others."""

from threading import Thread, current_thread, get_ident, main_thread


class TrainingThread:
    """The main thread, unless the first backward pass is called from another; when it has ended, the next to call one.

    Where several train at a time, the steps of one are those of the record.
    """

    def __init__(self) -> None:
        self.id = main_thread().ident
        """As `threading.get_ident` answers in it; None: no thread, until one goes backward."""
        self.sure: int | None = None
        """The same, once it was seen to go backward."""
        self._thread: Thread | None = None
        self._over = False

    def trains(self) -> bool:
        """A backward pass begins in the thread that asks: is it the one that trains?"""
        here = get_ident()
        if here == self.sure:
            return True
        if self._over:
            return False
        if self.sure is not None and self._thread is not None and self._thread.is_alive():
            return False
        self.id = self.sure = here
        self._thread = current_thread()
        return True

    def retire(self) -> None:
        """From now on none does: all hooks pass over every thread."""
        self.id, self.sure, self._over = None, None, True

    def forget(self) -> None:
        """In a forked process: most are workers, whose calls of modules (transforms are such) are no training."""
        self.id = self.sure = None
