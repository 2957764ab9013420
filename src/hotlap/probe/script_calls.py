"""What the script calls beside its steps, as the hooks report it: modules, loaders, batches, optimizers, groups."""

from collections import defaultdict
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
import xxhash

from hotlap.probe import clock as phases
from hotlap.probe.digests import (
    ELSEWHERE,
    WITH_GRADIENTS,
    WITHOUT,
    Digest,
    Draws,
    Fresh,
    Given,
    data_of,
    rng_digest,
    samples,
    tells_apart,
    tensors,
)
from hotlap.probe.dropouts import Dropouts
from hotlap.probe.evidence import Clips, Lapses, Updates, learning_rates, settings_digest
from hotlap.probe.facts import length_of
from hotlap.probe.random_numbers import RandomNumbers
from hotlap.probe.replay import Replay
from hotlap.probe.sampling import Between, Content
from hotlap.probe.seeds import generators, sources
from hotlap.record import KEPT_STEPS

if TYPE_CHECKING:
    from hotlap.probe.session import Session

# Which loaders serve training, and what the forward passes are, is known after so many steps.
LOADERS_SEEN_BY = 50

# Samples of a call without gradients that are looked at (a renderer is given a million of them at once), and numbers
# that it may make for them to be looked at as well: features have fewer, logits over a vocabulary more.
_MOST_LOOKED, _MOST_KEPT = 4096, 2**24

_VMAP = torch._C._functorch.TransformType.Vmap

# What the hooks call, and what a record lacks where that has failed.
_REPORTS = {
    "forward_begins": "where random numbers are drawn",
    "forward_left": "what is dropped at random",
    "forward_made": "what modules are called with",
    "optimizer_constructed": "the optimizers",
    "update_begins": "the updates of optimizers",
    "backward_begins": "the gradients that backward passes find",
    "backward_ended": "the gradients that backward passes leave",
    "clipped": "the limits of gradients",
    "loader_started": "the starts of epochs",
    "batch_drawn": "the batches",
}

Forward = Callable[[torch.nn.Module, Any, Any, Any], None]
"""(module, args, kwargs, result) of an outermost forward pass."""


class ScriptCalls:
    """Passes on what the hooks report: to the facts, to what the gate compares, to profilers that have joined."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._facts = session.facts
        self._evidence = session.plan.evidence
        # Profilers that want to see each outermost forward pass, or each batch (iterator, batch).
        self.on_forward: list[Forward] = []
        self.on_batch: list[Callable[[Any, Any], None]] = []
        self.attentive = True
        """Somebody wants to see forward passes and batches."""
        self.replaying = False
        """Batches are free now."""
        self.replay = Replay()
        self.updates = Updates()
        self._lapses = Lapses()
        self.draws = Draws()
        self.dropouts = Dropouts()
        self.numbers = RandomNumbers()
        self._clips = Clips()
        self._batches, self._samples, self._trained_on = Digest(), Fresh(), Given()
        self._looks, self._alone = Fresh(), defaultdict[int, Fresh](Fresh)
        self._inputs = Digest(), Digest()
        """What modules are called with, with gradients: in training, and by a model in evaluation (a validation without
        `no_grad`, a network whose statistics stand still)."""
        self._evaluates = False
        """The last model that was called is in evaluation: a loss has no such mode of its own."""
        self._content, self._between = Content(), Between()
        self._sources: dict[str, None] = {}
        """States in which batches found the generators, each once: a batch that draws nothing adds none."""
        self._generators: list[Any] = []
        """Of the script's own, as the last step left them: looking for them takes longer than what they say."""
        self._num_backwards = 0
        for name, what in _REPORTS.items():
            setattr(self, name, session.guard(getattr(self, name), what, off=session.must_be_there))

    def _hidden(self) -> bool:
        """Nothing can be read now: a graph is captured, or tensors stand for many (`torch.func.vmap`)."""
        transforms = torch._C._functorch.get_interpreter_stack() or ()
        return self._session.graphs.capturing is not None or any(one.key() == _VMAP for one in transforms)

    # Reports of the hooks

    def forward_begins(self) -> None:
        """An outermost module call begins. Only called where evidence is wanted."""
        if not self._hidden():
            self._session.own(lambda: self.draws.look(ELSEWHERE))
            self._keep_all(counts=torch.is_grad_enabled())

    def _keep_all(self, *, counts: bool) -> None:
        # What compiled code drops is not seen, so what is dropped beside it would say nothing.
        if self._session.steps < KEPT_STEPS and not self._facts.compiled:
            self.dropouts.begin(counts=counts)

    def forward_left(self) -> None:
        """It is over, or has failed. Only called where evidence is wanted."""
        self.dropouts.end()

    def forward_made(self, module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        """The outermost module call is over (a loss module counts as one). Only called while `attentive`."""
        session, facts = self._session, self._facts
        if session.steps < 2 and torch.is_grad_enabled():
            facts.saw_forward(module, result)
            session.collectives.saw_module(module)
            facts.autocast |= torch.is_autocast_enabled() or torch.is_autocast_enabled("cpu")
            facts.compiled |= type(module).__name__ == "OptimizedModule"
        if self._evidence and not self._hidden():
            session.own(lambda: self._given(module, (args, kwargs), result))
        for told in self.on_forward:
            told(module, args, kwargs, result)

    def backward_begins(self, *, counts: bool) -> None:
        """Only called where evidence is wanted. `counts`: from a loss, not `torch.autograd.grad`, which solvers call as
        often as rounding has it."""
        self._num_backwards += counts
        if not self._hidden():
            self._session.own(lambda: self._lapses.backward_begins(self._facts.optimizers()))
            self._keep_all(counts=False)  # what is computed again is what it was

    def backward_ended(self) -> None:
        """Only called where evidence is wanted."""
        self.dropouts.end()
        if not self._hidden():
            self._session.own(lambda: self._lapses.backward_ended(self._facts.optimizers()))

    def clipped(self, what: str, limit: Any, norm: torch.Tensor | None) -> None:
        """As `Clips.add`. Only called where evidence is wanted."""
        if not self._hidden():
            self._session.own(lambda: self._clips.add(what, limit, norm))

    def optimizer_constructed(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer was made."""
        self._facts.made_optimizer_at(optimizer)
        self._session.optimizer_constructed(optimizer)

    def update_begins(self, optimizer: torch.optim.Optimizer, *, closure: bool) -> None:
        """An optimizer is about to step. Only called where evidence is wanted, or with arguments."""
        session = self._session
        if closure:
            self._facts.used_closure(optimizer)
        if not self._evidence or self._hidden():
            return
        self._lapses.update_begins(optimizer)
        self.updates.begin(optimizer)
        if Updates.wanted(session.steps):
            session.own(lambda: self.updates.before(self._facts.optimizers(), None if closure else optimizer))

    def updated(self, optimizer: torch.optim.Optimizer) -> None:
        """That optimizer has stepped. Only called where evidence is wanted."""
        self._lapses.updated(optimizer)
        self.updates.stepped()

    def loader_started(self, loader: Any, iterator: Any) -> None:
        """`iter(loader)` was made, and was the last interval of the clock."""
        clock = self._session.clock
        clock.note((phases.EPOCH, clock.last_s(), None))
        self.replay.started(iterator, loader_id=self._facts.started_loader(loader), length=length_of(loader))

    def batch_drawn(self, iterator: Any, batch: Any) -> None:
        """A loader's iterator gave `batch`. Only called while `attentive`."""
        session = self._session
        if session.steps < LOADERS_SEEN_BY:
            session.clock.note((phases.LOADER, self.replay.loader_id(iterator), None))
        if self._evidence:
            session.own(lambda: self._take_in(batch))
        elif session.plan.free_input:
            session.own(lambda: self.replay.keep(iterator, batch))
        for told in self.on_batch:
            told(iterator, batch)

    def replayed(self, draw: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """In place of `draw(iterator)`: a batch that was drawn before."""
        return lambda iterator: self.replay.next(iterator, draw)

    def _given(self, module: torch.nn.Module, inputs: Any, result: Any) -> None:
        trains = torch.is_grad_enabled()
        self.draws.look(WITH_GRADIENTS if trains else WITHOUT)
        is_model = next(module.parameters(), None) is not None
        of_data = [] if any(map(self._trained_on.is_made, tensors(inputs)[:1])) else data_of(inputs)
        if is_model:
            self._evaluates = not module.training
            for one in of_data[:1]:
                self._between.add(module, one)
        if trains:
            # A teacher is given them too, with gradients or without.
            self._inputs[self._evaluates].add(inputs, is_made=self._trained_on.is_made)
        # What a part of a model hands on to the next part is no sample.
        if trains and module.training and of_data:
            data = self._trained_on.not_made(of_data)
            data = [*data[:1], *(one for one in data[1:] if not self._trained_on.is_state(one))]
            rows = list(samples(data))
            self._add_samples(rows, data)
            # A loss is given labels, a transform what a model is given next.
            if is_model and rows:
                self._trained_on.add(data[0], rows if len(data) < 2 else list(samples(data[:1])))
                self._content.add(data)
        if is_model:
            if not trains:
                self._looked_at(of_data, data_of(result))
            self._trained_on.made(result)

    def _looked_at(self, data: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        """`made`: features that may be kept, and given to another model the next time."""
        self._looks.add(islice(samples(data), _MOST_LOOKED))
        for one in made:
            if one.numel() <= _MOST_KEPT:
                self._looks.know(islice(samples([one]), _MOST_LOOKED))

    def _add_samples(self, rows: list[bytes], data: list[torch.Tensor]) -> None:
        told = [tells_apart(one) for one in data]
        if any(told):
            self._samples.add(rows)
        if len(data) > 1:
            for k, one in enumerate(data):
                self._alone[k].add(samples([one]) if told[k] else ())

    def _take_in(self, batch: Any) -> None:
        self._batches.add(batch)
        self._generators = self._generators or generators()
        self._sources[sources(self._generators)] = None

    # What the session takes at the end of a step

    def evidence(self) -> dict[str, Any]:
        """Fields of a Run, of the step that is over. The batches are what modules were called with in training, or else
        in evaluation, where no loader gave any."""
        found = [
            (one.take(), one.fresh.take(), one.rows.take(alone=one is self._batches))
            for one in (self._batches, *self._inputs)
        ]
        digest, fresh, rows = next((one for one in found if one[0]), found[0])
        trained = self.updates.in_order(self._facts.optimizers())
        num_backwards, self._num_backwards = self._num_backwards, 0
        num_added, forgetful = self._lapses.take()
        self._generators = generators()
        drawn_from, self._sources = "".join(self._sources | {sources(self._generators): None}), {}
        return {
            "num_backwards": num_backwards,
            "batch_digest": digest,
            "rows_digest": rows,
            "given": self._trained_on.take(),
            "content": self._content.take(),
            "between": self._between.take(),
            "fresh_samples": self._samples.take(),
            "fresh_inputs": tuple(one.take() for one in self._alone.values()) or None,
            "fresh_batches": fresh,
            "fresh_looks": self._looks.take(),
            "num_added": num_added,
            "forgetful_updates": forgetful,
            "draws": self.draws.take(),
            "drawn": self.numbers.take(),
            "clips": self._clips.take(),
            "rng_digest": rng_digest(),
            "sources_digest": xxhash.xxh3_128_hexdigest(drawn_from.encode()),
            "settings_digest": settings_digest(trained),
            "learning_rates": learning_rates(trained),
        }
