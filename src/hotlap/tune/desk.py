"""The study that is being written, the time that is left for it, and the one who is told."""

import time
from collections.abc import Callable
from dataclasses import replace

from hotlap import statistics
from hotlap.record import Study
from hotlap.tune.options import Observer, Options


class Desk:
    """Shared by the stages of a study. `now` is a clock in seconds (a fake one in tests)."""

    def __init__(
        self, study: Study, options: Options, observer: Observer, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.study = study
        self.options = options
        self._observer = observer
        self._now = now
        self._begun = now() - study.elapsed_s
        self.aside_s = 0.0
        """Part of the budget that is kept for a stage to come."""

    @property
    def elapsed_s(self) -> float:
        """Of the budget, earlier parts of an interrupted study included."""
        return self._now() - self._begun

    @property
    def left_s(self) -> float:
        """Of the budget, less what is kept for later."""
        return self.options.budget_s - self.elapsed_s - self.aside_s

    @property
    def extension_s(self) -> float:
        """Seconds that `extend` would add."""
        return max(0.0, (self.options.long_budget_s or 0.0) - self.options.budget_s)

    def change(self, part: str, **fields: object) -> None:
        """The study knows more now."""
        self.study = replace(self.study, elapsed_s=self.elapsed_s, **fields)  # type: ignore[arg-type]
        self._observer.changed(self.study, part)

    def extend(self) -> bool:
        """The study is one that needs the longer budget, where the user left the choice to us: True if it has it now
        and had not before."""
        if not self.extension_s:
            return False
        longer_s = self.options.budget_s + self.extension_s
        self.options = replace(self.options, budget_s=longer_s)
        self.change("budget", budget_s=longer_s)
        return True

    def doing(self, text: str) -> None:
        """What is being done now, a few words."""
        self._observer.doing(text)

    def warn(self, sentence: str) -> None:
        """Something that the reader must know; said once."""
        if sentence not in self.study.warnings:
            self.change("warnings", warnings=(*self.study.warnings, sentence))

    def limit_s(self, estimate_s: float) -> float:
        """What a heat may take before it is cut short: three times what it should, and not more than what is left."""
        return max(20.0, min(3 * estimate_s + 60.0, self.left_s + 20.0))

    def pooled(self, scope: str) -> tuple[float, int] | None:
        """Variance of all comparisons of this scope so far, those of equal things included."""
        groups = [noise.log_ratios for noise in self.study.noise if noise.scope == scope]
        groups += [trial.log_ratios for trial in self.study.trials if trial.scope == scope]
        return statistics.pool(groups)
