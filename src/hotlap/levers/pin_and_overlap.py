"""pin-and-overlap: batches lie in pinned memory and are copied to the GPU while the host goes on."""

import ast
from collections.abc import Iterator, Sequence

from hotlap.levers import loaders
from hotlap.levers.frameworks import in_their_words
from hotlap.levers.lever import Lever, Numerics, Scope
from hotlap.levers.models import keep_coming
from hotlap.record import Ceiling, LoaderFacts, Machine, Phase, Run
from hotlap.source import AddArgument, Edit, Script, moved_to, scripts
from hotlap.source.names import bound
from hotlap.units import size

# Parameters of these names are what trains, not what it is trained on.
_MODELS = ("self", "cls", "model", "net", "module")

# Below this a copy takes as long as starting it (10 us, as a kernel does): nothing to overlap.
LEAST_BYTES = 64 << 10


class PinAndOverlap(Lever):
    """Writes `pin_memory=True` at the loaders and `non_blocking=True` at the copies of their batches.

    What: `DataLoader(..., pin_memory=True)`, and `x.to(device, non_blocking=True)` where a loop copies what it goes
    over, or a function what it is given. Same values, same order, same random states.
    Why: from ordinary memory a copy goes through a buffer of the driver's and holds the host up until it is done; from
    pinned memory it runs while the host prepares the kernels behind it (CUDA C++ Best Practices Guide, 10.1; PyTorch's
    tutorial on pin_memory and non_blocking).
    When it hurts: pinned memory is taken from everybody, in blocks of powers of two; small batches are copied as fast
    without (left alone). Memory that is pinned anew for each batch costs more than it saves (pytorch/pytorch#124456),
    so it is refused where sizes keep changing. A script that writes to a batch on the host after its copy was asked for
    may change what arrives. Copies begin when the script asks for them, on the stream that trains: the next batch is
    not copied beside the kernels of this one. Arguments in `*`, or in a `**` that cannot be seen, and classes derived
    from DataLoader are left alone; `pin_memory_device` keeps its meaning.
    """

    scope = Scope.LOADER
    numerics = Numerics.EXACT
    across_ranks = True
    no_line = loaders.NO_LINE

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Is there a GPU, and do copies to it cost anything?"""
        if not run.loaders:
            return loaders.NO_LOADER
        if run.device == "cpu":
            return "The model runs on the CPU: batches do not travel."
        if run.shapes is not None and keep_coming(run.shapes):
            return (
                f"The model was given {run.shapes.num_shapes} different shapes: memory would be pinned again and again."
            )
        refused = loaders.refused_by_all(run, lambda loader: _refuses(run, loader))
        refused = refused or loaders.nothing_to_gain("Copies to the device take", run.share(Phase.TRANSFER))
        if refused is None and all(loader.pin_memory for loader in loaders.trained_on(run)) and not self.edits(run):
            return "Batches are pinned already, and no line of the script's makes the host wait."
        return refused

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that a step spends on copies; what it waits for its batch where they were not told apart."""
        copies_s = run.mean_phase_s(Phase.TRANSFER)
        return loaders.saves_at_most_s(run, ceilings) if copies_s is None else copies_s

    def edits(self, run: Run) -> Sequence[Edit]:
        """At each loader that does not pin its batches yet, and at each call that copies what one gives."""
        served = [loader for loader in run.loaders if _refuses(run, loader) is None]
        pageable = [loader for loader in served if not loader.pin_memory]
        pinned = [edit for loader in pageable for edit in loaders.argument_edits(run, loader, pin_memory="True")]
        if not served:
            return ()
        words = in_their_words(run, self.name, **({"pin_memory": "True"} if pageable else {}))
        copied = [
            AddArgument(site=script.site(call, calls="to"), keyword="non_blocking", value="True")
            for script, call in copies(scripts(run))
            if not any(word.arg == "non_blocking" and ast.unparse(word.value) != "False" for word in call.keywords)
        ]
        return (*pinned, *copied, *(words or ()))


def _refuses(run: Run, loader: LoaderFacts) -> str | None:
    # With a sampler of batches the loader itself does not know their size.
    num_items = loader.batch_size or max((count for count in run.num_samples if count), default=1)
    num_bytes = (loader.item_bytes or LEAST_BYTES) * num_items
    if num_bytes < LEAST_BYTES:
        return f"A batch of {loader.dataset} has {size(num_bytes)}: it is copied as fast without."
    return loaders.why_hidden(run, loader)


def copies(known: Sequence[Script]) -> Iterator[tuple[Script, ast.Call]]:
    """The calls that copy a part of what a loop goes over, or of what a function is given, to a device.

    By names alone: it may be something else than a batch, whose copy need not be waited for either.
    """
    for script in known:
        for call in script.all_calls:
            moves = isinstance(call.func, ast.Attribute) and moved_to(call) is not None
            if moves and _is_given(script, call.func.value, frozenset()):  # type: ignore[attr-defined]
                yield script, call


def _is_given(script: Script, node: ast.expr, followed: frozenset[str]) -> bool:
    """A part of a loop's variable, or of a parameter; or of what such a part was assigned to."""
    match node:
        case ast.Attribute(value=owner) | ast.Subscript(value=owner) | ast.Starred(value=owner):
            return _is_given(script, owner, followed)
        case ast.Call(func=ast.Attribute(value=owner)):  # a method of it: `batch["x"].float()`
            return _is_given(script, owner, followed)
        case ast.Call(func=ast.Name(id="next")):
            return True
        case ast.Name(id=name) if name not in followed:
            return any(_gives(script, outer, name, followed | {name}) for outer in script.around(node))
    return False


def _gives(script: Script, outer: ast.AST, name: str, followed: frozenset[str]) -> bool:
    """What stands around a name binds it to something that is given."""
    match outer:
        case ast.For(target=target):
            return _binds(target, name)
        case ast.ListComp(generators=parts) | ast.DictComp(generators=parts) | ast.GeneratorExp(generators=parts):
            return any(_binds(part.target, name) for part in parts)
        case ast.Lambda():
            return any(parameter.arg == name for parameter in outer.args.args)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Module():
            given = () if isinstance(outer, ast.Module) else (*outer.args.args, *outer.args.kwonlyargs)
            if any(parameter.arg == name for parameter in given):
                return not any(word in name for word in _MODELS)
            assigned = (
                node for node in ast.walk(outer) if isinstance(node, ast.Assign) and script.scope(node) is outer
            )
            return any(_binds(node.targets[0], name) and _is_given(script, node.value, followed) for node in assigned)
    return False


def _binds(target: ast.expr, name: str) -> bool:
    return any(name in bound(node) for node in ast.walk(target))
