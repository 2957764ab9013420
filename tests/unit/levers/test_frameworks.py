"""What a framework sets is set at its own call, by its own word, where the script does not choose for itself."""

import dataclasses
import inspect
import sys
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

import pytest

from hotlap import levers
from hotlap.levers import Lever, Scope
from hotlap.levers.bf16_autocast import Bf16Autocast
from hotlap.levers.compile import Compile
from hotlap.levers.frameworks import _FRAMEWORKS, in_their_words
from hotlap.levers.fused_optimizer import FusedOptimizer
from hotlap.levers.pin_and_overlap import PinAndOverlap
from hotlap.levers.switches import CudnnBenchmark, Tf32
from hotlap.levers.workers import Workers
from hotlap.record import CallSite, Phase, Run
from hotlap.source import parsed, patch
from hotlap.source.file import digest
from tests.sample_runs import loader, machine, optimizer, run_with

TRAINER = (
    "from transformers import Trainer, TrainingArguments\nargs = TrainingArguments({})\nTrainer(net(), args).train()\n"
)
LIGHTNING = "import lightning as L\ntrainer = L.Trainer({})\ntrainer.fit(task, loader)\n"
ACCELERATE = "from accelerate import Accelerator\naccelerator = Accelerator({})\nloader = accelerator.prepare(loader)\n"


def run_of(folder: Path, text: str, given: str = "") -> Run:
    """On a GPU; loader, optimizer and forward pass are the framework's, made by the call in line 3."""
    path = folder / "train.py"
    path.write_text(text.format(given))
    sha256 = digest(path.read_bytes())
    script = parsed(str(path), sha256, path.read_text())
    assert script is not None
    last = script.site(next(call for call in script.all_calls if call.lineno == 3), calls="")
    made: dict[str, dict[str, str | int | float]] = {
        "torch.utils.data.DataLoader": {"loader": 0},
        "torch.optim.AdamW": {"optimizer": 0},
        "forward": {"parameters": True, "returns": "CausalLMOutput"},
    }
    sites: tuple[CallSite, ...] = tuple(
        replace(last, calls=name, detail={**detail, "through": "accelerate.accelerator"})
        for name, detail in made.items()
    )
    return replace(
        run_with(phases={Phase.INPUT: 0.001, Phase.TRANSFER: 0.001, Phase.FORWARD: 0.002}),
        device="NVIDIA H200",
        loaders=(replace(loader(), trained_on=True, item_bytes=1 << 20),),
        optimizers=(replace(optimizer(), name="torch.optim.AdamW", dtypes=("float32",), closure=True),),
        call_sites=sites,
        sources={str(path): sha256},
    )


def after(lever: Lever, run: Run) -> str:
    """What the call of the framework is given then."""
    (path,) = run.sources
    lines = patch(lever.edits(run), root=Path(path).parent).texts.get(path, Path(path).read_text()).splitlines()
    return next(line.partition("(")[2][:-1] for line in lines if " = " in line and "import" not in line)


@pytest.mark.parametrize(
    ("text", "lever", "given"),
    [
        (TRAINER, Bf16Autocast(), "bf16=True"),
        (TRAINER, FusedOptimizer(), 'optim="adamw_torch_fused"'),
        (TRAINER, Tf32(), "tf32=True"),
        (TRAINER, Workers(num_workers=4), "dataloader_num_workers=4"),
        (TRAINER, Workers(2, 4), "dataloader_num_workers=2, dataloader_prefetch_factor=4"),
        (TRAINER, PinAndOverlap(), 'dataloader_pin_memory=True, accelerator_config={"non_blocking": True}'),
        (LIGHTNING, Bf16Autocast(), 'precision="bf16-mixed"'),
        (LIGHTNING, CudnnBenchmark(), "benchmark=True"),
        (ACCELERATE, Bf16Autocast(), 'mixed_precision="bf16"'),
        (ACCELERATE, PinAndOverlap(), "dataloader_config=DataLoaderConfiguration(non_blocking=True)"),
    ],
    ids=lambda value: value.name if isinstance(value, Lever) else "",
)
def test_the_framework_is_given_its_own_word(text: str, lever: Lever, given: str, tmp_path: Path) -> None:
    assert after(lever, run_of(tmp_path, text)) == given


def test_what_a_word_needs_is_imported(tmp_path: Path) -> None:
    (new,) = patch(PinAndOverlap().edits(run_of(tmp_path, ACCELERATE)), root=tmp_path).texts.values()
    assert new.startswith("from accelerate import Accelerator\nfrom accelerate import DataLoaderConfiguration\n")


def test_a_trainer_compiles_with_the_random_numbers_of_the_script(tmp_path: Path) -> None:
    run = run_of(tmp_path, TRAINER)
    (new,) = patch(Compile("max-autotune").edits(run), root=tmp_path).texts.values()
    assert 'TrainingArguments(torch_compile_mode="max-autotune")' in new
    assert "import torch._inductor.config\n" in new
    assert "\n\ntorch._inductor.config.fallback_random = True\n" in new
    assert not Compile(dynamic=True).edits(run), "there is no word for it"


def test_no_choice_is_replaced_and_a_choice_of_the_scripts_is_left_alone(tmp_path: Path) -> None:
    assert after(Bf16Autocast(), run_of(tmp_path, LIGHTNING, "precision=32")) == 'precision="bf16-mixed"'
    chosen = run_of(tmp_path, LIGHTNING, "precision=args.precision")
    assert Bf16Autocast().rejects(chosen, machine()) == "The script chooses precision itself, in line 2."
    half = run_of(tmp_path, TRAINER, "fp16=True")
    assert Bf16Autocast().rejects(half, machine()) == "The script chooses fp16 itself, in line 2."


@pytest.mark.parametrize(
    ("given", "how"), [('True, False, "no"', "by position"), ("*given", "by * or **"), ("**more", "by * or **")]
)
def test_what_may_be_chosen_out_of_sight_is_left_alone(given: str, how: str, tmp_path: Path) -> None:
    run = run_of(tmp_path, ACCELERATE, given)
    assert how in str(Bf16Autocast().rejects(run, machine()))
    assert after(Bf16Autocast(), run_of(tmp_path, ACCELERATE, "True")) == 'True, mixed_precision="bf16"'


@pytest.mark.parametrize("given", ["net(), args", "model=net(), args=args", "net(), args=args"])
def test_arguments_from_the_command_line_are_replaced_where_a_trainer_takes_them(given: str, tmp_path: Path) -> None:
    text = (
        "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
        "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
        "trainer = Trainer({})\n"
        "trainer.train()\n"
    )
    run = run_of(tmp_path, text, given)
    edits = (*Bf16Autocast().edits(run), *Workers(num_workers=4).edits(run))
    (new,) = patch(edits, root=tmp_path).texts.values()
    assert new == "import dataclasses\nimport sys\n\n" + text.format(given).replace(
        "trainer = ",
        'args = args if args.bf16 or args.fp16 or "--bf16" in " ".join(sys.argv) else '
        "dataclasses.replace(args, bf16=True)\n"
        'args = args if args.dataloader_num_workers or "--dataloader_num_workers" in " ".join(sys.argv) else '
        "dataclasses.replace(args, dataloader_num_workers=4)\n"
        "trainer = ",
    )


@dataclass
class Copies:
    non_blocking: bool = False
    split_batches: bool = False


@dataclass
class Parsed:
    """As TrainingArguments are behind a command line."""

    fp16: bool = False
    bf16: bool = False
    dataloader_num_workers: int = 0
    dataloader_persistent_workers: bool = False
    dataloader_pin_memory: bool = True
    optim: str = "adamw_torch"
    tf32: bool | None = None
    accelerator_config: Copies = field(default_factory=Copies)


@pytest.mark.parametrize(
    ("lever", "given", "then"),
    [
        (Workers(num_workers=4), Parsed(), Parsed(dataloader_num_workers=4)),
        (Workers(num_workers=4), Parsed(dataloader_num_workers=16), Parsed(dataloader_num_workers=16)),
        (Bf16Autocast(), Parsed(), Parsed(bf16=True)),
        (Bf16Autocast(), Parsed(fp16=True), Parsed(fp16=True)),
        (Tf32(), Parsed(), Parsed(tf32=True)),
        (FusedOptimizer(), Parsed(), Parsed(optim="adamw_torch_fused")),
        (FusedOptimizer(), Parsed(optim="sgd"), Parsed(optim="sgd")),
        (
            PinAndOverlap(),
            Parsed(dataloader_pin_memory=False, accelerator_config=Copies(split_batches=True)),
            Parsed(accelerator_config=Copies(non_blocking=True, split_batches=True)),
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Lever) else "",
)
def test_what_a_later_command_line_chooses_stays(lever: Lever, given: Parsed, then: Parsed, tmp_path: Path) -> None:
    run = run_of(tmp_path, "from transformers import Trainer\n\ntrainer = Trainer(net(), args)\n")
    (text,) = patch(lever.edits(run), root=tmp_path).texts.values()
    names: dict[str, object] = {"dataclasses": dataclasses, "sys": sys, "args": given}
    exec(next(line for line in text.splitlines() if line.startswith("args = ")), names)
    assert names["args"] == then


@pytest.mark.parametrize("words", [["--bf16", "False"], ["--bf16=0"]])
def test_a_word_of_the_command_line_that_says_no_stays(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    test_what_a_later_command_line_chooses_stays(Bf16Autocast(), Parsed(), Parsed(), tmp_path)


def test_a_number_of_workers_that_the_command_line_chose_is_left_alone(tmp_path: Path) -> None:
    run = run_of(tmp_path, "from transformers import Trainer\n\ntrainer = Trainer(net(), args)\n")
    chosen = replace(run, loaders=(replace(run.loaders[0], num_workers=2),))
    assert "chooses dataloader_num_workers itself" in str(Workers(num_workers=4).rejects(chosen, machine()))


def test_an_optimizer_that_the_command_line_chose_is_left_alone(tmp_path: Path) -> None:
    run = run_of(tmp_path, "from transformers import Trainer\n\ntrainer = Trainer(net(), args)\n")
    assert FusedOptimizer().rejects(run, machine()) is None
    other = replace(run, optimizers=(replace(run.optimizers[0], name="torch.optim.SGD"),))
    assert FusedOptimizer().rejects(other, machine()) is not None


def test_where_the_arguments_of_a_trainer_have_no_name_they_are_left_alone(tmp_path: Path) -> None:
    text = "from transformers import Trainer\n\ntrainer = Trainer({})\n"
    for given in ("net()", "net(), parsed()[0]", "**settings"):
        assert in_their_words(run_of(tmp_path, text, given), "bf16-autocast") is None


def test_of_two_calls_neither_is_changed(tmp_path: Path) -> None:
    run = run_of(tmp_path, f"{TRAINER}other = TrainingArguments()\n".replace("{}", ""))
    assert in_their_words(run, "bf16-autocast") is None


@pytest.mark.parametrize(
    "lever",
    [kind() for kind in levers.ALL if kind.scope is Scope.LOADER and kind.function],
    ids=lambda lever: lever.name,
)
def test_no_data_set_is_wrapped_in_a_call_that_is_no_loader(lever: Lever, tmp_path: Path) -> None:
    for text in (TRAINER, LIGHTNING, ACCELERATE):
        assert not lever.edits(run_of(tmp_path, text))


def test_a_loader_that_a_framework_made_of_the_scripts_own_stands_for_that(tmp_path: Path) -> None:
    text = ACCELERATE.replace("loader = acc", "loader = DataLoader(data)\nloader = acc")
    text = f"from torch.utils.data import DataLoader\n{text}"
    run = run_of(tmp_path, text)
    path = tmp_path / "train.py"
    script = parsed(str(path), run.sources[str(path)], path.read_text())
    assert script is not None
    (call,) = script.calls("torch.utils.data.DataLoader")
    own = replace(script.site(call, calls="torch.utils.data.DataLoader"), detail={"loader": 0})
    prepared = replace(own, line=5, detail={"loader": 1, "through": "accelerate.accelerator"})
    one, other = replace(loader(), trained_on=False), replace(loader(), id=1, trained_on=True)
    run = replace(run, loaders=(one, other), call_sites=(own, prepared))
    (edit,) = Workers(num_workers=2).edits(run)
    assert Workers(num_workers=2).rejects(run, machine()) is None
    assert edit.site == own


@pytest.mark.parametrize(
    ("name", "number"), [("transformers.TrainingArguments", 0), ("lightning.Trainer", 1), ("accelerate.Accelerator", 2)]
)
def test_the_framework_knows_its_words(name: str, number: int) -> None:
    package, kind = name.split(".")
    made = getattr(pytest.importorskip(package), kind)
    framework = _FRAMEWORKS[number]
    assert framework.calls.fullmatch(name)
    words = {word for words in framework.words.values() for word in words}
    parameters = list(inspect.signature(made).parameters)
    assert words <= set(parameters[framework.positional :])
    for line in framework.imports.splitlines():
        _, module, _, imported = line.split()
        assert hasattr(import_module(module), imported)
