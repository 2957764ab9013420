"""What is one training step? Optimizer steps and backward passes -> step boundaries."""

# An optimizer that ends the cycle but stays away while another one steps this often has been given up by the script
# (training in stages): learn the cycle anew. Ratios of critic to generator steps in use are 1 to 10.
_GIVEN_UP = 50

# Steps of all optimizers in one cycle, at most: a critic makes up to 10 for one of the generator.
_LONGEST_CYCLE = 12

# Scripts accumulate gradients over this many backward passes at most; beyond, whoever updates the parameters is not
# a torch optimizer, and the backward passes themselves mark the steps.
MAX_ACCUMULATION = 512


class StepMarker:
    """Finds the boundaries between steps.

    - One optimizer: each of its steps ends a training step.
    - Several (a GAN): a training step is over when each has stepped, however often; the one that comes last in the
      first round ends all later ones.
    - None: each backward pass ends a training step.
    """

    def __init__(self) -> None:
        self.only: int | None = None
        """The one optimizer whose every step ends a training step. While there is one, a call is saved for each event:
        its step sets `backwards` to 0, and a backward pass adds 1 as long as that is below MAX_ACCUMULATION."""
        self.backwards = 0
        """Backward passes since the last step of an optimizer."""
        self._optimizers: set[int] = set()
        self._order: list[int] = []
        self._anchor: int | None = None
        self._waited = 0
        self._begun = False
        """An optimizer has stepped since the last one was made."""
        self.by_backward = False
        """No optimizer is at work; backward passes mark the steps."""

    def made(self, optimizer: int) -> None:
        """An optimizer was constructed; it is known by a number of its own.

        In the midst of training it begins a stage: those before it belong to its cycle once they step again.
        """
        if self._begun:
            self._begun = False
            self._optimizers.clear()
            self._forget()
        self._optimizers.add(optimizer)
        self.only = None

    def gone(self, optimizer: int) -> None:
        """An optimizer was dropped by the script."""
        self._optimizers.discard(optimizer)
        self.only = None
        if optimizer in self._order:
            self._forget()

    def stepped(self, optimizer: int) -> bool:
        """An optimizer has stepped: does a training step end here?"""
        self.backwards = 0
        self.by_backward = False
        self._begun = True
        if optimizer not in self._optimizers:
            self._optimizers.add(optimizer)
            self._forget()
        self.only = optimizer if len(self._optimizers) == 1 else None
        if self.only is not None:
            return True
        self._waited += 1
        if self._anchor is None:
            self._learn(optimizer)
        elif self._waited > _GIVEN_UP:
            self._optimizers.discard(self._anchor)
            self._forget()
            return len(self._optimizers) == 1
        if optimizer != self._anchor:
            return False
        self._waited = 0
        return True

    def went_backward(self) -> bool:
        """A backward pass is over: does a training step end here?"""
        if not self.by_backward:
            self.backwards += 1
            self.by_backward = not self._optimizers or self.backwards > MAX_ACCUMULATION
            if self.by_backward:
                self.only = None
        return self.by_backward

    def _learn(self, optimizer: int) -> None:
        if optimizer not in self._order:
            self._order.append(optimizer)
        # One that was made and is never used must not be waited for for ever.
        if len(self._order) == len(self._optimizers) or self._waited > _LONGEST_CYCLE:
            self._anchor = self._order[-1]

    def _forget(self) -> None:
        self._anchor, self._order, self._waited = None, [], 0
