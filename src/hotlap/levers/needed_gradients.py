"""needed-gradients: a backward pass computes the gradients of the optimizer that steps, and no others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, final

from hotlap.levers.lever import Lever, Numerics
from hotlap.levers.optimizer_names import backward_at, is_known_at, name_at
from hotlap.record import CallSite, Ceiling, Machine, Phase, Run
from hotlap.source import AddArgument, Edit, Script, parameters_of, reads_gradients, scripts

_NO_NAME = "do not all step in a call of their own, `optimizer.step()`, in the same file."


@final
@dataclass(frozen=True, slots=True)
class NeededGradients(Lever):
    """Leaves out gradients that are cleared before anything reads them: `loss.backward(inputs=[...])`.

    What: where a backward pass goes through another network as well (a GAN's generator is trained through the
    discriminator, a policy through its critic), it is given the parameters of the optimizers that step with its result.
    Why: it goes through the other network still, but computes no gradients of its parameters, up to half of the work
    there, which that network's `zero_grad()` throws away unread (PyTorch's documentation of `torch.autograd.backward`,
    "inputs"). In benchmarks/track/gan the generator's backward pass took 1.47 times as long with them, on one thread.
    When it hurts: the gradients of all other parameters are then missing for somebody who reads them by hand, between
    that line and the one that clears them; they differ from what they were, which is what is saved. So the probe
    follows each gradient through the first steps, and the lever is refused where one was ever used, clipped or hooked,
    and where the script's source reads `.grad`. An optimizer that starts to step with them later, in a phase that
    comes after the trials, would find nothing. What the pass leaves out of the graph is freed with the loss.
    """

    numerics: ClassVar[Numerics] = Numerics.EXACT

    line: int = 0
    """Line of the backward pass."""
    file: int = 0
    """0: they are in the main script. Else the first six hexadecimal digits of the SHA-256 of the file they are in."""

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """One for each line that wastes gradients, costliest first."""
        sites = sorted(_wasteful(run), key=_seconds, reverse=True)
        return tuple(dict.fromkeys(cls(line=site.line, file=_file(run, site)) for site in sites)) or (cls(),)

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Was such a line seen, does nothing else read the gradients, and can it be written?"""
        site = self._site(run)
        if site is None:
            return "No backward pass was seen to compute gradients that are cleared before an optimizer reads them."
        if site.detail.get("why_not"):
            return f"Whether line {self.line} needs all its gradients is unclear: {site.detail['why_not']}."
        if run.compiled:
            return "The script compiles its model, whose backward pass is then one piece that computes all gradients."
        if not self.edits(run):
            return f"The optimizers that need the gradients of line {self.line} {_NO_NAME}"
        reasons = (reason for script in scripts(run) for reason in reads_gradients(script))
        return next(reasons, None) or self._differs(run, site)

    def _differs(self, run: Run, site: CallSite) -> str | None:
        """Why the line cannot be given the optimizers' parameters."""
        script = next((script for script in scripts(run) if script.path == site.path), None)
        call = None if script is None else backward_at(script, site.line)
        if script is None or call is None:
            return f"What goes backward in line {self.line} is no plain `loss.backward()` in a line of its own."
        steps = _nearest_steps(run, site)
        if {step.detail.get("steps") for step in steps} != _needs(site):
            return f"The optimizers that need the gradients of line {self.line} {_NO_NAME}"
        if not all(is_known_at(script, call, at) for step in steps if (at := script.at(step)) is not None):
            return f"In line {self.line} the optimizer does not have the name under which it steps later."
        return None

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """The backward passes of that line; on a device, where the host's clock does not tell, all of them."""
        site, all_s = self._site(run), run.mean_phase_s(Phase.BACKWARD) or 0.0
        if site is None:
            return 0.0
        return min(all_s, _seconds(site)) if run.device == "cpu" else all_s

    def edits(self, run: Run) -> Sequence[Edit]:
        """One argument more."""
        site = self._site(run)
        if site is None or site.detail.get("why_not"):
            return ()
        script = next((script for script in scripts(run) if script.path == site.path), None)
        names = _names(script, _nearest_steps(run, site)) if script is not None else ()
        if not names:
            return ()
        return (AddArgument(site=site, keyword="inputs", value=parameters_of(names)),)

    def _site(self, run: Run) -> CallSite | None:
        for site in _wasteful(run):
            if site.line == self.line and _file(run, site) == self.file:
                return site
        return None


def _names(script: Script, steps: Sequence[CallSite]) -> tuple[str, ...]:
    """Of the optimizers of these steps; none where one has no name."""
    calls = [script.at(step) for step in steps]
    names = [None if call is None else name_at(script, call) for call in calls]
    return tuple(name for name in names if name is not None) if None not in names else ()


def _wasteful(run: Run) -> list[CallSite]:
    """Lines of which an optimizer needs a part; those that nobody needs are a person's to judge."""
    return [site for site in run.call_sites if site.calls == "backward" and site.detail.get("needs")]


def _seconds(site: CallSite) -> float:
    """Of the backward passes of a line, in a step."""
    seconds = site.detail.get("seconds")
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def _needs(site: CallSite) -> set[int]:
    """Numbers of the optimizers that use what a line computes."""
    return {int(word) for word in str(site.detail.get("needs", "")).split() if word.isdecimal()}


def _steps(run: Run, site: CallSite) -> list[CallSite]:
    """Steps of optimizers in the file of `site`."""
    return [step for step in run.call_sites if step.calls == "optimizer.step" and step.path == site.path]


def _nearest_steps(run: Run, site: CallSite) -> list[CallSite]:
    """For each optimizer that needs the gradients, its first step below that line; else its first step."""
    found = []
    for number in sorted(_needs(site)):
        steps = [step for step in _steps(run, site) if step.detail.get("steps") == number]
        if steps:
            found.append(min(steps, key=lambda step: (step.line < site.line, step.line)))
    return sorted(found, key=lambda step: step.line)


def _file(run: Run, site: CallSite) -> int:
    main = next(iter(run.sources), None)
    return 0 if site.path == main else int(site.sha256[:6], 16)
