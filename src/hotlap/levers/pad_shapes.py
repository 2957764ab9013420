"""pad-shapes: batches of changing length are padded on to the next of a few lengths."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from hashlib import sha256
from itertools import islice
from pathlib import Path
from types import CodeType
from typing import Any, ClassVar, Self, final

from hotlap.levers.lever import Lever, Numerics, Patch, Scope, cannot_write
from hotlap.levers.padding import PaddedCall, is_told_apart, loss_over_padding, normalisation, packing, padded_calls
from hotlap.record import Ceiling, Machine, Phase, Run, ShapeFacts
from hotlap.source import Edit, ReplaceCall, Script, parsed, scripts

# As for the finding shape-churn: a handful of lengths and a shorter last batch are no churn, and what lies in buckets
# already comes to no more.
_FEWEST_SHAPES = 16

# Half of it is added to a batch on average. 16 wastes little on sentences; 64 suits lengths that spread over hundreds.
_MULTIPLE = 16
_WIDE_MULTIPLE = 64
_WIDE_SHAPES = 128

# Where what new shapes cost was not seen (each shape was new): as for expandable-segments, for the order of the search.
_PART = 0.25


@final
@dataclass(frozen=True, slots=True)
class PadShapes(Lever):
    """Puts `hotlap.data.bucketed` around `pad_sequence`: lengths become multiples of `multiple`.

    What: a batch is padded to its own longest sequence; it gets some more of the same padding, on the right, up to the
    next multiple, but never beyond the longest batch so far, so that a table of positions suffices still.
    Why: whatever is prepared for one shape is then used again: kernels that oneDNN and cuDNN prepare or search for,
    compiled code and CUDA graphs (pytorch/pytorch#188150), blocks of the CUDA allocator and of pinned memory
    (pytorch/pytorch#124456). With lengths as they come, oneDNN's cache grew until lengths were padded to multiples
    (intel/mkl-dnn#489).
    When it hurts: padding is computed like data, half of `multiple` a batch: where shapes cost nothing this is lost. A
    model that does not tell padding from data trains on other data: a loss or a mean over all positions, the last
    position, attention without a mask. So the lever is for scripts that name a mask, lengths or `ignore_index`, and is
    refused where a loss over positions ignores none, with batch normalisation, and where batches are packed
    afterwards (`pack_padded_sequence`), for then their shapes change all the same. What is left is judged, padding
    apart, by rounding, or else statistically: dropout draws for the padding as well. Each worker has a longest batch of
    its own.
    """

    name: ClassVar[str] = "pad-shapes"
    scope: ClassVar[Scope] = Scope.LOADER
    numerics: ClassVar[Numerics] = Numerics.STATISTICAL
    pads: ClassVar[bool] = True

    multiple: int = _MULTIPLE

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """Narrow buckets; wide ones where there are many lengths."""
        many = run.shapes is not None and run.shapes.num_shapes >= _WIDE_SHAPES
        return tuple(cls(multiple=multiple) for multiple in (_MULTIPLE, _WIDE_MULTIPLE)[: 1 + many])

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Do shapes churn, is there such a call, and does the script know its padding?"""
        if run.shapes is None:
            return "It was not looked at how many shapes the model is given."
        if run.shapes.num_shapes < _FEWEST_SHAPES:
            return f"The model was given no more than {run.shapes.num_shapes} different shapes, so they do not churn."
        started = next((one.start_method for one in run.loaders if one.start_method not in (None, "fork")), None)
        if started is not None:
            return f"The loaders' workers are started by {started}, where it could not be tried."
        otherwise = "No call of pad_sequence, padding on the right with a plain value, is in the script's own source."
        return cannot_write(self, run, otherwise) or _in_vain(scripts(run)) or _changes_data(scripts(run))

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """What steps with new shapes took beyond the others; a part of the step where that was not seen."""
        if run.shapes is None or not run.step_s:
            return 0.0
        passes_s = sum(run.mean_phase_s(phase) or 0.0 for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.SYNC))
        new_s = _new_beyond_known_s(run, run.shapes)
        # On a GPU the allocator takes its time in steps of known shapes, too.
        unseen_s = _PART * passes_s if new_s is None or run.device != "cpu" else 0.0
        return max(new_s or 0.0, unseen_s)

    def install(self, patch: Patch) -> None:
        """The calls concerned, in this process and in workers that are forked from it."""
        from torch.nn.utils import rnn

        from hotlap.data.buckets import lengthened, longest_at

        make = rnn.pad_sequence

        @wraps(make)
        def pad_sequence(*args: Any, **kwargs: Any) -> Any:
            padded = make(*args, **kwargs)
            caller = sys._getframe(1)
            found = _call_at(caller.f_code, caller.f_lasti)
            if found is None:
                return padded
            # A number, or a name of the script's own.
            value = eval(found.value, caller.f_globals, caller.f_locals)
            longest = longest_at(caller.f_code.co_filename, caller.f_code.co_firstlineno, caller.f_lasti)
            return lengthened(padded, multiple=self.multiple, dim=found.dim, value=value, longest=longest)

        patch.set(rnn, "pad_sequence", pad_sequence)

    def edits(self, run: Run) -> Sequence[Edit]:
        """`pad_sequence(...)` -> `bucketed(pad_sequence(...), multiple=16, ...)`."""
        return tuple(edit for script in scripts(run) for edit in self._edits(script))

    def _edits(self, script: Script) -> list[Edit]:
        return [
            ReplaceCall(
                site=script.site(one.call, calls="pad_sequence"),
                code=f"bucketed({script.code(one.call)}, {self._settings(one)})",
                imports="from hotlap.data import bucketed",
            )
            for one in padded_calls(script)
        ]

    def _settings(self, one: PaddedCall) -> str:
        """What is not as `bucketed` has it anyway: "multiple=16, value=PAD"."""
        settings = [f"multiple={self.multiple}"]
        settings += [f"dim={one.dim}"] if one.dim != 1 else []
        settings += [f"value={one.value}"] if one.value not in ("0", "0.0") else []
        return ", ".join(settings)


def _in_vain(known: Sequence[Script]) -> str | None:
    """Why shapes change whatever the padding."""
    line = packing(known)
    return None if line is None else f"Batches are packed in line {line}, so their shapes change all the same."


def _changes_data(known: Sequence[Script]) -> str | None:
    """Why more padding would be another training."""
    if not is_told_apart(known):
        return "Nothing in the script tells padding from data (no mask, lengths or ignore_index), so it is left alone."
    line = loss_over_padding(known)
    if line is not None:
        return f"The loss in line {line} counts padded positions as data (no ignore_index): more of them change it."
    line = normalisation(known)
    if line is not None:
        return f"The normalisation made in line {line} takes its statistics over padding as well."
    return None


def _new_beyond_known_s(run: Run, shapes: ShapeFacts) -> float | None:
    """Seconds a step; None where no step, or each, had a shape that was new."""
    new, told = set(shapes.new_steps), zip(run.step_s, run.step_index, strict=False)
    of_new: list[float] = []
    of_known: list[float] = []
    for seconds, step in told:
        (of_new if step in new else of_known).append(seconds)
    if not of_new or not of_known:
        return None
    beyond_s = sum(of_new) / len(of_new) - sum(of_known) / len(of_known)
    return max(0.0, beyond_s * len(of_new) / len(run.step_s))


@lru_cache(maxsize=1024)
def _call_at(code: CodeType, instruction: int) -> PaddedCall | None:
    """What is called there, if it is one of the calls that the edits change. Two may stand on one line."""
    place = next(islice(code.co_positions(), instruction // 2, None), None)
    return None if place is None else _calls_in(code.co_filename).get(place)


@lru_cache(maxsize=1024)
def _calls_in(path: str) -> Mapping[tuple[int | None, ...], PaddedCall]:
    """(line, last line, column, last column) -> the call there, in one file of the script's own."""
    if not path.endswith((".py", ".pyw")) or "site-packages" in path:
        return {}
    try:
        data = Path(path).read_bytes()
        script = parsed(path, sha256(data).hexdigest(), data.decode())
    except (OSError, UnicodeDecodeError):
        return {}
    found = padded_calls(script) if script is not None else ()
    places = ((one.call, one) for one in found)
    return {(at.lineno, at.end_lineno, at.col_offset, at.end_col_offset): one for at, one in places}
