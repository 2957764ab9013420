"""Plan -> what each step is for: warm-up, recorded under which arm and in which block, or the end."""

import math
from dataclasses import dataclass, replace

from hotlap.record import BEYOND_EPOCH, EPOCH_STRETCH, Plan
from hotlap.record.order import rounds

# Processes of a trial group warm up in turns as well, of so many blocks each: two that compute at the same time slow
# each other down by far more than two, because the threads of each wait for one another.
_WARM_TURN = 4

# Where the run's time is limited, or its steps: parts of them, from the first step on, after which the warm-up and the
# recording are cut short. All profilers together want some forty steps, many of them half as long again as others.
# Where that is more than all the time gives, the recorded steps get a third: there they are few, but long, and the
# longer a step is the less it differs from the next.
_WARM_SHARE, _RECORDED_SHARE = 0.1, 0.33
# But not below these numbers of steps: fewer cannot be told from chance.
_LEAST_WARM, _LEAST_RECORDED = 2, 8
# Where it is only to be quick (`Plan.enough_s`), or only few steps seem to be left, more are waited for.
_LEAST_ENOUGH = 30

# A second validation is waited for up to so many recorded steps, about 1 MB of JSON: scripts without a loader validate
# every 100 to 2,000 steps (`eval_interval`). Not with evidence, of which each step is compared in each run.
_MOST_TO_VALIDATION = 4096

_ENDLESS = 2**62


@dataclass(frozen=True, slots=True)
class Move:
    """What the next step is."""

    recorded: bool
    arm: int = 0
    block: int = 0
    new_block: bool = False
    """A block begins: the arm may change, or the token must be waited for."""
    done: bool = False


class Schedule:
    """Told after each step; answers with the next move. Knows no clock and no torch.

    Arms take turns in a balanced order (`hotlap.record.order`), behind one round that is thrown away.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._block_steps = plan.turn.steps if plan.turn else plan.block
        self._num_arms = len(plan.arms)
        self.switches = self._num_arms > 1 or plan.turn is not None
        """At the end of a block something changes: the arm, or the process whose turn it is."""
        self._made = 0
        self._recorded = 0
        self._in_block = 0
        self._rounds_before = 0
        self._rounds = rounds(self._num_arms, plan.order_seed)
        self._order: tuple[int, ...] = tuple(range(self._num_arms))
        self.warm = False
        """The warm-up is over."""
        self._epochs = 0
        self._after_epoch = 0
        self._has_stretches, self._recorded_stretches = False, 0
        self.left_s: float | None = None
        """For the steps, seconds after the first one, where profilers want some of them; None: as long as it takes."""
        self.num_planned: int | None = None
        """Steps of the whole training, as far as its source says, where profilers want some of them."""
        self.opens_s: float | None = None
        """With `Plan.whole`: when profilers get theirs, after the first step; None: none wants any (more)."""
        self.move = Move(recorded=False)
        if plan.warmup == 0 and self._num_arms == 1:
            self.warm = True
            self.move = Move(recorded=True, new_block=True)

    @property
    def wanted(self) -> int:
        """Steps to record over all arms."""
        return self._plan.steps * self._num_arms

    def go_on(self) -> None:
        """The profilers have had their steps, but the script trains to its own end: record all that follow."""
        self.opens_s = None
        self._in_block = 0
        self._go(self._next_block(self.move.block + 1))

    @property
    def sure(self) -> int:
        """The next decision falls in so many steps, at the earliest (at least 1): none before needs `advance` at once.

        For a run of one arm that takes no turns the end of a block decides nothing.
        """
        if not self.warm or self.move.done or not self.move.recorded:
            return 1
        left = self._block_steps - self._in_block if self.switches else _ENDLESS
        if not self._plan.whole:
            left = min(left, self.wanted - self._recorded)
        if self._plan.enough_s is not None and self._recorded < _LEAST_ENOUGH:
            left = min(left, _LEAST_ENOUGH - self._recorded)
        if self._share:
            enough = math.floor(_RECORDED_SHARE * self._made / self._share) + 1
            left = min(left, max(enough - self._made, _LEAST_ENOUGH - self._recorded))
        return max(1, left)

    @property
    def _share(self) -> float:
        """Part of the planned steps that were made; 0 where nothing is planned, where it was an earlier loop's number,
        and while an epoch's end is waited for, unless it is to be quick."""
        waits = self.warm and self._waits and self._plan.enough_s is None
        if not self.num_planned or self._made > self.num_planned or waits:
            return 0.0
        return self._made / self.num_planned

    @property
    def _waits(self) -> bool:
        """For an epoch's end; without a loader for a second validation, if one was seen: two say how often it comes."""
        if not self._plan.whole_epoch:
            return False
        if self._epochs:
            return self._after_epoch < BEYOND_EPOCH
        return self._has_stretches and self._recorded_stretches < 2

    def advance(self, *, settled: bool, elapsed_s: float, epoch_started: bool, aside: bool = False) -> Move:
        """A step was made; `settled`: every lever has reached its steady state; `elapsed_s` since the first step;
        `aside`: forward passes without training came with it, as a validation has."""
        self._made += 1
        self._after_epoch += self._epochs > 1
        self._epochs += epoch_started
        self._has_stretches |= aside
        self._recorded_stretches += aside and self.move.recorded
        if not self.warm:
            patience_over = elapsed_s >= self._plan.warmup_max_s
            if self._made < self._plan.warmup or not (settled or patience_over):
                yields = self._plan.turn is not None and self._made % (_WARM_TURN * self._block_steps) == 0
                return self._go(Move(recorded=False, new_block=yields))
            self.warm = True
            # Each arm gets one block that is thrown away: its first steps build what the later ones find ready.
            self._rounds_before = 1 if self._num_arms > 1 else 0
            self._in_block = 0
            return self._go(self._next_block(0))
        self._in_block += 1
        if self.move.recorded:
            self._recorded += 1
            if self._finished(elapsed_s):
                return self._go(replace(self.move, recorded=False, new_block=False, done=True))
        if self._in_block < self._block_steps:
            if self.move.new_block:
                self.move = replace(self.move, new_block=False)
            return self.move
        self._in_block = 0
        return self._go(self._next_block(self.move.block + 1))

    def is_late(self, elapsed_s: float) -> bool:
        """`elapsed_s` after the first step: it is time for what comes next. (Never where arms or processes compare.)"""
        if self.switches or self.move.done:
            return False
        if self._plan.whole:
            return self.opens_s is not None and elapsed_s > self.opens_s and self._recorded >= _LEAST_RECORDED
        enough_s = self._plan.enough_s
        if self.warm and enough_s is not None and self._recorded >= _LEAST_ENOUGH and elapsed_s > enough_s:
            return True
        share_s = 0.0 if self.left_s is None else elapsed_s / self.left_s
        if not self.warm:
            return self._made >= _LEAST_WARM and max(share_s, self._share) > _WARM_SHARE
        if self._recorded >= _LEAST_ENOUGH and self._share > _RECORDED_SHARE:
            return True
        return self._recorded >= _LEAST_RECORDED and share_s > _RECORDED_SHARE

    def cut_short(self) -> None:
        """End the warm-up, or else the recording, here."""
        if self.warm:
            self._go(replace(self.move, recorded=False, new_block=False, done=True))
        else:
            self.warm, self._in_block = True, 0
            self._go(self._next_block(0))

    def _next_block(self, block: int) -> Move:
        round_, place = divmod(block, self._num_arms)
        recorded = round_ >= self._rounds_before
        if recorded and not place and self._num_arms > 1:
            self._order = next(self._rounds)
        return Move(recorded=recorded, arm=self._order[place], block=block, new_block=True)

    def _go(self, move: Move) -> Move:
        self.move = move
        return move

    def _finished(self, elapsed_s: float) -> bool:
        if self._recorded < self.wanted or self._plan.whole:
            return False
        patience_s = self._plan.whole_epoch_s
        if not self._waits or (patience_s is not None and elapsed_s > patience_s):
            return True
        far = self._epochs or self._plan.evidence
        return self._recorded >= (EPOCH_STRETCH * self.wanted if far else _MOST_TO_VALIDATION)
