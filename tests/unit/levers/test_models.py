"""Levers that act on models and on the lines that call them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hotlap.levers.bf16_autocast import Bf16Autocast
from hotlap.levers.channels_last import ChannelsLast
from hotlap.levers.compile import Compile
from hotlap.levers.compiling import Compilation, has_torch_forward
from hotlap.levers.models import named_models
from hotlap.record import OperatorWindow, Phase, Run, ShapeFacts
from hotlap.source import patch
from tests.conformance.recorded import OWN, SCRIPTS, run_of
from tests.edits.sites import sites
from tests.sample_runs import machine


def script(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    path.write_text(text)
    return path


# Names of models


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("model(x)\nAdam(model.parameters())", ["model"]),
        ("self.model(x)\nAdam(params=self.model.parameters(), lr=1)", ["self.model"]),
        ("opt = Adam(model.parameters())\nmodel, opt = accelerator.prepare(model, opt)\nmodel(x)", ["model"]),
        ("model(x)\nAdam(list(model.parameters()))", ["model"]),
        ("model(x)\nAdam([{'params': model.parameters()}])", ["model"]),
        ("model(x)\nAdam(filter(lambda p: p.requires_grad, model.parameters()))", ["model"]),
        ("model(x)\nAdam([p for _, p in model.named_parameters()], lr=1)", ["model"]),
        ("model(x)\ngroups = [{'params': model.parameters()}]\nAdam(groups)", ["model"]),
        ("model(x)\ndef make():\n    groups = model.parameters()\nAdam(groups)", []),
        (
            "model(x)\ndecay = [p for p in model.parameters() if p.dim() > 1]\n"
            "groups = [{'params': decay, 'weight_decay': 0.1}]\nAdam(groups)",
            ["model"],
        ),
        ("model(x)\nAdam([p for model in models for p in model.parameters()])", []),
        ("model(x)\nAdam([{'params': model.a.parameters()}, {'params': model.b.parameters()}])", ["model"]),
        ("model(x)\nAdam(model.parameters(False))", []),
        ("model(x)\nAdam(other.parameters())", []),
        ("model(x)\nAdam(models[0].parameters())", []),
    ],
)
def test_a_model_is_what_is_called_and_optimized_under_one_name(tmp_path: Path, text: str, names: list[str]) -> None:
    assert [model.name for model in named_models(run_of(script(tmp_path, text)))] == names


def run_calling(path: Path, *names: str, **detail: str | bool) -> Run:
    """A run that called, in training, what is written so in the script at `path`."""
    run = run_of(path)
    made = [site for site in run.call_sites if site.calls != "forward"]
    text = path.read_text()
    called = [site for name in names for site in sites(text, name, path=str(path))]
    forwards = [replace(site, calls="forward", detail={"parameters": True, **detail}) for site in called]
    return replace(run, call_sites=(*made, *forwards))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a = model.encoder(x)\nmodel.decoder(a)\nAdam(model.parameters())", ["model.encoder", "model.decoder"]),
        ("model.encoder(x)\nmodel.encoder(y)\nAdam(model.parameters())", ["model.encoder"]),
        ("models.encoder(x)\nAdam(model.parameters())", []),
        ("model.encoder(x)\nAdam(model.decoder.parameters())", []),
        ("self.encoder(x)\nAdam(self.parameters())", []),
        ("Adam(model := Net(), model.parameters())\nmodel.encoder(x)", []),
        ("steps = [Adam(model.parameters()) for model in models]\nmodel.encoder(x)", []),
    ],
)
def test_parts_of_what_is_optimized_are_named_as_they_are_called(tmp_path: Path, text: str, names: list[str]) -> None:
    run = run_calling(script(tmp_path, text), "encoder", "decoder")
    assert [model.name for model in named_models(run)] == names


_STEP = "    def training_step(self, x):\n        return self.net(x)\n"
_OPTIMIZER = "    def configure_optimizers(self):\n        return Adam(self.parameters())\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [(f"class Task:\n{_STEP}{_OPTIMIZER}", ["self.net"]), (f"class Task:\n{_STEP}class Other:\n{_OPTIMIZER}", [])],
)
def test_self_is_the_same_in_methods_of_one_class(tmp_path: Path, text: str, names: list[str]) -> None:
    assert [model.name for model in named_models(run_calling(script(tmp_path, text), "net"))] == names


_GPT = """class GPT(Module):
    def configure_optimizers(self):
        decay = [p for p in self.parameters() if p.dim() > 1]
        groups = [{"params": decay, "weight_decay": 0.1}]
        return Adam(groups)
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("model = GPT()\noptimizer = model.configure_optimizers()\nmodel(x)", ["model"]),
        ("optimizer = model.configure_optimizers()\nother(x)", []),
        ("optimizer = GPT().configure_optimizers()\nmodel(x)", []),
        ("model.parameters()\nmodel(x)", []),
    ],
)
def test_a_model_may_make_its_optimizer_itself(tmp_path: Path, text: str, names: list[str]) -> None:
    run = run_calling(script(tmp_path, _GPT + text), "model", "other")
    found = named_models(run)
    assert [model.name for model in found] == names
    texts = patch(Compile().edits(run), root=tmp_path).texts
    for name in names:
        assert f"\n{name}.compile(options" in texts[str(tmp_path / "train.py")].partition("optimizer = ")[0]


def test_a_method_that_calls_the_model_itself_is_no_model(tmp_path: Path) -> None:
    path = script(tmp_path, "model.encode(x)\nAdam(model.parameters())")
    assert named_models(run_calling(path, "encode"))
    assert not named_models(run_calling(path, "encode", through="timm.models.vit"))


def test_a_model_that_functions_call_has_no_name(tmp_path: Path) -> None:
    path = script(tmp_path, "model(x)\nfunctional_call(model, p, x)\nAdam(model.parameters())")
    run = run_calling(path, "functional_call", convolutions=True, through="torch._functorch.functional_call")
    for lever in (Compile(), ChannelsLast()):
        assert lever.rejects(run, machine()) == lever.no_line
    by_name = run_calling(path, "model", convolutions=True).call_sites
    both = replace(run, call_sites=(*run.call_sites, *by_name))
    assert Compile().rejects(both, machine()) is None


# channels-last


def test_grouped_convolutions_in_float32_are_refused() -> None:
    run = run_of(OWN["channels-last"])
    sites = tuple(replace(site, detail={**site.detail, "grouped": 2}) for site in run.call_sites)
    reason = ChannelsLast().rejects(replace(run, call_sites=sites), machine())
    assert reason is not None and "grouped" in reason
    assert ChannelsLast().rejects(replace(run, call_sites=sites, autocast=True), machine()) is None


# compile


def with_shapes(num_shapes: int, *, late: int) -> Run:
    shapes = ShapeFacts(num_steps=100, num_shapes=num_shapes, num_new_late=late)
    return replace(run_of(SCRIPTS[0]), shapes=shapes)


def test_compile_needs_a_compiler() -> None:
    assert Compile().rejects(run_of(SCRIPTS[0]), machine()) is None
    reason = Compile().rejects(run_of(SCRIPTS[0]), replace(machine(), compiler=None))
    assert reason is not None and "compiler" in reason


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [
        ("torch.autograd.grad(loss, [], create_graph=True)", True),
        ("options = {'create_graph': True}", True),
        ("loss.backward(create_graph = False)", False),
        ("create_graphs = True", False),
    ],
)
def test_compile_is_refused_where_gradients_have_gradients(tmp_path: Path, line: str, is_refused: bool) -> None:
    reason = Compile().rejects(run_of(script(tmp_path, f"model(x)\nAdam(model.parameters())\n{line}\n")), machine())
    assert ("create_graph" in str(reason)) is is_refused


def test_compile_is_refused_where_new_shapes_keep_coming() -> None:
    reason = Compile().rejects(with_shapes(60, late=40), machine())
    assert reason is not None and "60 different shapes" in reason
    assert Compile().rejects(with_shapes(5, late=0), machine()) is None


def test_compile_makes_one_graph_for_sizes_known_to_change() -> None:
    assert Compile.candidates(with_shapes(5, late=0), machine()) == (Compile(dynamic=True),)
    assert Compile.candidates(with_shapes(2, late=0), machine()) == (Compile(),)


def test_compile_tries_all_modes_on_a_gpu() -> None:
    on_gpu = replace(run_of(SCRIPTS[0]), device="NVIDIA H200")
    assert [lever.mode for lever in Compile.candidates(on_gpu, machine())] == [
        "default",
        "reduce-overhead",
        "max-autotune",
    ]


@pytest.mark.parametrize(("busy_s", "mode"), [(0.0, "reduce-overhead"), (1.0, "max-autotune")])
def test_compile_tries_the_mode_for_what_takes_longer_the_launches_or_the_kernels(busy_s: float, mode: str) -> None:
    operators = OperatorWindow(num_steps=1, wall_s=2.0, operators=(), num_calls=100.0, device_busy_s=busy_s)
    run = replace(run_of(SCRIPTS[0]), device="NVIDIA H200", operators=operators)
    run = replace(run, phase_s={**run.phase_s, Phase.FORWARD: (0.5,) * len(run.step_s)})
    assert [lever.mode for lever in Compile.candidates(run, machine())] == ["default", mode]


def test_a_module_of_torchs_own_is_compiled_in_a_frame_of_its_own(tmp_path: Path) -> None:
    path = script(tmp_path, "import torch\ndef main():\n    optimizer = Adam(model.parameters())\n    model(x)\n")
    run = run_calling(path, "model", torch_forward=True)
    lines = [line for line in patch(Compile().edits(run), root=tmp_path).diff.splitlines() if line.startswith("+ ")]
    assert lines == [
        "+    torch._dynamo.config.wrap_top_frame = True",
        '+    model.compile(options={"fallback_random": True})',
    ]
    assert Compile().rejects(run, machine()) is None
    reason = Compile().rejects(replace(run, versions={"torch": "2.7.1+cpu"}), machine())
    assert reason is not None and "before torch 2.8" in reason
    own = run_calling(path, "model", torch_forward=False)
    assert len(Compile().edits(own)) == 1
    assert Compile().rejects(replace(own, versions={"torch": "2.7.1+cpu"}), machine()) is None


@pytest.fixture
def counters() -> Iterator[dict[str, Counter[str]]]:
    """Dynamo's, empty."""
    from torch._dynamo.utils import counters

    counters.clear()
    yield counters
    counters.clear()


@pytest.mark.skipif(not hasattr(torch._dynamo.config, "wrap_top_frame"), reason="not in this torch")
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_the_layers_of_a_module_of_torchs_own_become_one_graph(counters: dict[str, Counter[str]]) -> None:
    model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), torch.nn.Linear(2, 1))
    # As the edit has it. (pytest's monkeypatch would delete the setting where it ends, for the whole process.)
    with torch._dynamo.config.patch(wrap_top_frame=True):
        model.compile(backend="eager")
        compilation = Compilation()
        assert compilation.why_idle() == "no model was compiled"
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
    assert counters["stats"]["unique_graphs"] == 1
    assert compilation.why_idle() is None
    assert compilation.notes() == []


def test_why_nothing_was_compiled_is_told_as_dynamo_says_it(counters: dict[str, Counter[str]]) -> None:
    counters["unimplemented"]["Attempted to wrap RNN, GRU, or LSTM\n  Explanation: ..."] += 1
    why = "no model was compiled, first because: Attempted to wrap RNN, GRU, or LSTM"
    assert Compilation().why_idle() == why


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning")  # torch 2.14 on
def test_what_is_written_in_torch_itself_is_told_from_what_is_not() -> None:
    class Own(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    class Named(torch.nn.Sequential):
        pass

    linear = torch.nn.Linear(2, 1)
    assert [has_torch_forward(one) for one in (linear, Named(linear), Own(2, 1))] == [True, True, False]
    assert not has_torch_forward(torch.jit.script(linear))


def test_compile_waits_for_late_graphs_before_it_is_timed(counters: dict[str, Counter[str]]) -> None:
    compilation = Compilation()
    for new_graph_at in (3, 20):
        for _ in range(new_graph_at):
            assert not compilation.settled()
        counters["stats"]["unique_graphs"] += 1
        assert not compilation.settled()
    asked = 0
    while not compilation.settled():
        asked += 1
    assert asked == 29


def test_a_model_in_pieces_is_told(counters: dict[str, Counter[str]]) -> None:
    counters["graph_break"]["call to print\nin line 3"] += 1
    counters["stats"]["unique_graphs"] += 20
    first, second = Compilation().notes()
    assert first.endswith("leaves the compiled code at 1 places, first because: call to print")
    assert "graphs were compiled" in second


def test_what_shares_its_line_is_compiled_there_and_is_not_put_into_a_with(tmp_path: Path) -> None:
    path = script(tmp_path, "out = model(x); opt = Adam(model.parameters())")
    run = run_calling(path, "model", returns="Tensor")
    assert Compile().rejects(run, machine()) is None
    (new,) = patch(Compile().edits(run), root=tmp_path).texts.values()
    assert new == path.read_text().replace("opt =", 'model.compile(options={"fallback_random": True}); opt =')
    reason = Bf16Autocast().rejects(run, replace(machine(), cpu_flags=("amx_bf16",))) or ""
    assert reason.endswith("the call is in a statement that has no line of its own; give it one.")
