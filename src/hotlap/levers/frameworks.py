"""Levers in the words of frameworks: what TrainingArguments, Lightning's Trainer and Accelerate call what they do."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hotlap.errors import UserError
from hotlap.record import CallSite, Run
from hotlap.source import AddArgument, Edit, InsertBefore, Script, argument, scripts

Words = Mapping[str, str]
"""Keyword -> value, in which {name} stands for a setting of the lever; empty for what would contradict it."""

# Parsed arguments have no other value than a false one where nothing was chosen, but for these; {0}: their name.
_CHOSEN = {
    "accelerator_config": "{0}.accelerator_config.non_blocking",
    "optim": '{0}.optim != "adamw_torch"',
}
# What else was chosen there stays.
_KEPT = {"accelerator_config": "dataclasses.replace({0}.accelerator_config, non_blocking=True)"}

# What a script passes where it has chosen nothing.
_NO_CHOICE = (None, False, 0, "no", 32, "32", "32-true")


@dataclass(frozen=True, slots=True)
class _Framework:
    calls: re.Pattern[str]
    """Full names of what is given the keywords."""
    words: Mapping[str, Words]
    """By lever."""
    positional: int = 0
    """How many arguments may be given by position: what comes first is none of the keywords."""
    imports: str = ""
    """For the names in the values."""
    takers: re.Pattern[str] | None = None
    """Full names of what takes a data class of such arguments, second or as `args`: they may be read from the command
    line, where no line makes them."""


_FRAMEWORKS = (
    _Framework(
        calls=re.compile(r"transformers\.(\w+\.)*\w*TrainingArguments"),
        words={
            "bf16-autocast": {"bf16": "True", "fp16": ""},
            "buffer-broadcast": {"ddp_broadcast_buffers": "False"},
            "compile": {"torch_compile_mode": '"{mode}"'},  # each of the three has torch_compile=True follow
            "fused-optimizer": {"optim": '"adamw_torch_fused"'},
            "pin-and-overlap": {
                "dataloader_pin_memory": "{pin_memory}",  # torch's True is the default
                "accelerator_config": '{{"non_blocking": True}}',
            },
            "tf32": {"tf32": "True"},
            "unused-parameters": {"ddp_find_unused_parameters": "False"},
            "workers": {
                "dataloader_num_workers": "{num_workers}",
                "dataloader_prefetch_factor": "{prefetch_factor}",
                "dataloader_persistent_workers": "{persistent_workers}",
            },
        },
        positional=1,  # output_dir
        takers=re.compile(r"transformers\.(\w+\.)*\w*Trainer"),
    ),
    _Framework(
        calls=re.compile(r"(lightning|lightning\.pytorch|pytorch_lightning)\.Trainer"),
        words={
            "bf16-autocast": {"precision": '"bf16-mixed"'},
            "cudnn-benchmark": {"benchmark": "True"},
        },
    ),
    _Framework(
        calls=re.compile(r"accelerate\.Accelerator"),
        words={
            "bf16-autocast": {"mixed_precision": '"bf16"'},
            "pin-and-overlap": {"dataloader_config": "DataLoaderConfiguration(non_blocking=True)"},
        },
        positional=2,  # device_placement, split_batches; the third is mixed_precision
        imports="from accelerate import DataLoaderConfiguration",
    ),
)


def in_their_words(run: Run, lever: str, **settings: str) -> Sequence[Edit] | None:
    """The lever as arguments of the framework that trains; those whose setting is not given are left out. None where
    no framework that has words for it is set up in one place of the script.

    Raises:
        UserError: the script chooses such an argument itself, or may: it gives arguments by position.
    """
    try:
        known = scripts(run)
    except UserError:  # the source is not what it was: whoever edits it says so
        return None
    for framework in _FRAMEWORKS:
        words = framework.words.get(lever, {})
        places = _calls(framework.calls, known)
        if words and len(places) == 1:
            return tuple(_edits(*places[0], _said(words, settings), framework))
        takers = _calls(framework.takers, known) if framework.takers is not None else []
        if words and not places and len(takers) == 1:
            if "dataloader_num_workers" in words and any(one.num_workers for one in run.loaders if one.trained_on):
                raise UserError("The command line chooses dataloader_num_workers itself.")
            return tuple(_replaced(*takers[0], _said(words, settings))) or None
    return None


def _calls(names: re.Pattern[str], known: Sequence[Script]) -> list[tuple[Script, ast.Call]]:
    return [
        (script, call)
        for script in known
        for call in script.all_calls
        if names.fullmatch(script.full_name(call.func) or "")
    ]


def _replaced(script: Script, call: ast.Call, said: Words) -> Iterator[Edit]:
    """`Trainer(model, training_args)` -> `training_args = dataclasses.replace(training_args, bf16=True)` before it, for
    all command lines that do not choose the first keyword (be it `--bf16 False`), or one that would contradict it."""
    given = argument(call, 1, "args")
    if said and isinstance(given, ast.Name):
        name = given.id
        first, *others = said
        chosen = [first, *(keyword for keyword in others if not said[keyword])]
        if_chosen = " or ".join(_CHOSEN.get(keyword, f"{{0}}.{keyword}").format(name) for keyword in chosen)
        new = [f"{keyword}={_KEPT.get(keyword, '{1}').format(name, value)}" for keyword, value in said.items() if value]
        yield InsertBefore(
            site=script.site(call, calls=script.full_name(call.func) or ""),
            code=f'{name} = {name} if {if_chosen} or "--{first}" in " ".join(sys.argv) else '
            f"dataclasses.replace({name}, {', '.join(new)})",
            imports="import dataclasses\nimport sys",
        )


def _edits(script: Script, call: ast.Call, said: Words, framework: _Framework) -> Iterator[Edit]:
    chosen = {word.arg: word.value for word in call.keywords}
    site = script.site(call, calls=script.full_name(call.func) or "")
    hidden = any(isinstance(word, ast.Starred) for word in call.args) or None in chosen
    if hidden or len(call.args) > framework.positional:
        how = "by * or **" if hidden else "by position"
        raise UserError(f"Line {call.lineno} gives arguments {how}, which may be those that the lever sets.")
    for keyword, value in said.items():
        choice = chosen.get(keyword, ast.Constant(value=None))
        if not isinstance(choice, ast.Constant) or choice.value not in _NO_CHOICE:
            raise UserError(f"The script chooses {keyword} itself, in line {call.lineno}.")
        if value:
            imports = framework.imports if "(" in value else ""
            yield AddArgument(site=site, keyword=keyword, value=value, imports=imports)


def _said(words: Words, settings: Mapping[str, str]) -> Words:
    """The words with the settings of the lever, without those whose setting is not given."""
    found: dict[str, str] = {}
    for keyword, value in words.items():
        with suppress(KeyError):
            found[keyword] = value.format(**settings)
    return found


def is_within(site: CallSite) -> bool:
    """What was made there a framework has made, called by the script's line."""
    return str(site.detail.get("through", "")).partition(".")[0] in _PACKAGES


_PACKAGES = frozenset({"transformers", "accelerate", "lightning", "pytorch_lightning", "lightning_fabric"})
