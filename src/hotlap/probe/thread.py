"""Which thread trains? The hooks pass over all others."""

from threading import get_ident, main_thread


class TrainingThread:
    """The main thread, unless the first backward pass is called from another."""

    def __init__(self) -> None:
        self.id = main_thread().ident
        """As `threading.get_ident` answers in it; None: no thread, until one goes backward."""
        self.sure = False
        """A backward pass was seen."""

    def trains(self) -> None:
        """A backward pass begins in the thread that asks."""
        self.id, self.sure = get_ident(), True

    def forget(self) -> None:
        """In a forked process: most are workers, whose calls of modules (transforms are such) are no training."""
        self.id, self.sure = None, False
