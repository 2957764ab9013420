"""A launcher for tests: answers plans from recorded runs, starts nothing."""

from collections.abc import Callable, Sequence

from hotlap.record import Plan, Run


class ReplayedLauncher:
    """Calls `answer` with each plan. Keeps the plans that it was given."""

    def __init__(self, answer: Callable[[Plan], Run]) -> None:
        self._answer = answer
        self.plans: list[Plan] = []
        self.not_enclosed: str | None = None

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        """One Run per plan."""
        self.plans += plans
        return [self._answer(plan) for plan in plans]
