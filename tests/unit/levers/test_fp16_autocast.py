"""fp16-autocast: which scripts it is for, and what goes through the scaler."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.levers import Patch
from hotlap.levers.bf16_autocast import Bf16Autocast
from hotlap.levers.fp16_autocast import Fp16Autocast
from hotlap.levers.loss_scaling import FIRST_SCALE, scale_losses
from hotlap.record import Run
from hotlap.source import patch
from tests.conformance.recorded import SCRIPTS, run_of
from tests.sample_runs import machine, optimizer

SCRIPT = next(path for path in SCRIPTS if path.stem == "flat")


def on_a(card: str) -> Run:
    return replace(run_of(SCRIPT), device=card)


def changed(old: str, new: str, folder: Path) -> Run:
    """The run, on a T4, of the script with something else in one place."""
    text = SCRIPT.read_text()
    assert old in text
    path = folder / "train.py"
    path.write_text(text.replace(old, new))
    return replace(run_of(path), device="Tesla T4")


def reason(run: Run) -> str:
    return Fp16Autocast().rejects(run, machine()) or "taken"


# Which cards, and which scripts


@pytest.mark.parametrize("card", ["Tesla T4", "Tesla V100-SXM2-16GB", "NVIDIA GeForce RTX 2080 Ti", "TITAN V"])
def test_cards_with_tensor_cores_for_float16_alone_take_it_in_place_of_bfloat16(card: str) -> None:
    assert reason(on_a(card)) == "taken"
    assert Bf16Autocast().rejects(on_a(card), machine()) == f"This card ({card}) has no bfloat16 instructions."


@pytest.mark.parametrize("card", ["NVIDIA H200", "NVIDIA A100-SXM4-40GB", "NVIDIA RTX 6000 Ada Generation"])
def test_cards_that_know_bfloat16_are_left_to_that(card: str) -> None:
    assert reason(on_a(card)).endswith("bf16-autocast is tried instead.")
    assert Bf16Autocast().rejects(on_a(card), machine()) is None


@pytest.mark.parametrize("card", ["NVIDIA GeForce GTX 1080 Ti", "Tesla P100-PCIE-16GB"])
def test_cards_without_tensor_cores_gain_nothing(card: str) -> None:
    assert reason(on_a(card)) == f"This card ({card}) has no tensor cores."


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_other_devices_are_left_alone(device: str) -> None:
    assert reason(on_a(device)) == "Loss scaling is tried on NVIDIA's GPUs only."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"autocast": True}, "under autocast already"),
        ({"skipped_updates": 3}, "some updates were left out"),
        ({"optimizers": ()}, "has no torch optimizers"),
        ({"optimizers": (optimizer(), optimizer())}, "has 2 torch optimizers"),
        ({"optimizers": (replace(optimizer(), closure=True),)}, "a closure"),
        ({"optimizers": (replace(optimizer(), dtypes=("float16",)),)}, "not all float32"),
        ({"call_sites": ()}, "No call of a model"),
    ],
)
def test_the_state_of_the_script_comes_first(changes: dict[str, Any], words: str) -> None:
    run = on_a("Tesla T4")
    plain = tuple(replace(one, dtypes=("float32",)) for one in changes.get("optimizers", run.optimizers))
    kept = changes.get("optimizers", ()) if "not all" in words else plain
    assert words in reason(replace(run, **{**changes, "optimizers": kept}))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        optimizer.step()", "        if len(x) > 1:\n            optimizer.step()"),
        ("loss.backward()", "(loss / 2).backward()"),
        ("loss.backward()", "loss.backward(retain_graph=True)"),
        ("loss.backward()", "loss.backward()\n        out.sum().backward()"),
        ("loss.backward()", "loss.backward()\n        if len(x) > 1:\n            continue"),
        ("        loss.backward()\n        optimizer.step()", "        optimizer.step()\n        loss.backward()"),
        ("optimizer = SGD", "optimizer = make = SGD"),
    ],
)
def test_it_takes_one_backward_pass_and_one_update_side_by_side(old: str, new: str, tmp_path: Path) -> None:
    assert reason(changed(old, new, tmp_path)).startswith("The script does not have one backward pass")


def test_a_scaler_of_the_scripts_own_is_seen(tmp_path: Path) -> None:
    run = changed("torch.manual_seed(0)", "from torch.amp import GradScaler", tmp_path)
    assert reason(run).startswith("A GradScaler is used in line ")


@pytest.mark.parametrize(
    "line", ["x.requires_grad_()", "torch.autograd.grad(loss, x)", "x = x.new(requires_grad=True)"]
)
def test_gradients_of_something_else_are_not_to_be_scaled(line: str, tmp_path: Path) -> None:
    run = changed("        loss.backward()", f"        {line}\n        loss.backward()", tmp_path)
    assert "takes gradients of its own" in reason(run)


def test_frozen_parameters_are_no_gradients(tmp_path: Path) -> None:
    assert reason(changed("loss.backward()", "x.requires_grad_(False)\n        loss.backward()", tmp_path)) == "taken"


def test_it_can_save_what_the_passes_take_on_a_gpu_and_nothing_on_a_cpu() -> None:
    assert Fp16Autocast().saves_at_most_s(on_a("Tesla T4"), ()) == pytest.approx(0.0022)
    assert Fp16Autocast().saves_at_most_s(on_a("cpu"), ()) == 0.0


# What it does


def test_what_stands_between_the_two_stays_between_them(tmp_path: Path) -> None:
    clip = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    run = changed("        optimizer.step()\n", f"{clip}        optimizer.step()\n", tmp_path)
    text = next(iter(patch(Fp16Autocast().edits(run), root=tmp_path).texts.values()))
    assert text.endswith(
        "        loss.backward(scaler.scale(torch.ones_like(loss)))\n"
        "        scaler.unscale_(optimizer)\n"
        f"{clip}"
        "        scaler.step(optimizer)\n"
        "        scaler.update()\n"
    )


def test_a_name_that_the_script_uses_is_not_taken(tmp_path: Path) -> None:
    run = changed("torch.manual_seed(0)", "scaler = 1", tmp_path)
    text = next(iter(patch(Fp16Autocast().edits(run), root=tmp_path).texts.values()))
    assert 'loss_scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)' in text


class Training:
    """A model of one weight, and the optimizer that updates it."""

    def __init__(self, kind: type[torch.optim.Optimizer] = torch.optim.SGD) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Linear(4, 2)
        self.optimizer = kind(self.model.parameters(), lr=0.1)  # type: ignore[call-arg]  # all have it
        self.x = torch.randn(8, 4)

    def loss(self) -> torch.Tensor:
        return self.model(self.x).square().mean()  # type: ignore[no-any-return]

    def step(self, factor: float = 1.0) -> float:
        self.optimizer.zero_grad()
        loss = self.loss() * factor
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1e6)
        self.optimizer.step()
        return float(norm)


@pytest.fixture
def installed() -> Iterator[Patch]:
    made = Patch()
    scale_losses(made)
    yield made
    made.undo()


def test_gradients_are_their_own_between_the_backward_pass_and_the_update(installed: Patch) -> None:
    training = Training()
    installed.optimizer_made(training.optimizer)
    scaled = training.step()
    installed.undo()
    assert scaled == pytest.approx(Training().step(), rel=1e-6)


def test_a_gradient_that_float16_cannot_hold_comes_through() -> None:
    lever, found = Fp16Autocast(), []
    for install in (False, True):
        training, made = Training(), Patch()
        if install:
            lever.install(made)
            made.optimizer_made(training.optimizer)
        try:
            training.step(factor=1e-7)
        finally:
            made.undo()
        assert training.model.weight.grad is not None
        found.append(training.model.weight.grad.clone())
    torch.testing.assert_close(found[1], found[0], rtol=0.02, atol=1e-10)


def test_the_loss_that_a_backward_pass_starts_from_is_the_scripts_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, float]] = []
    plain = torch.autograd.backward

    def listening(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
        seen.append((float(tensors.detach()), float(grad_tensors)))
        plain(tensors, grad_tensors, *args, **kwargs)

    monkeypatch.setattr(torch.autograd, "backward", listening)
    training, made = Training(), Patch()
    scale_losses(made)
    made.optimizer_made(training.optimizer)
    loss = float(training.loss().detach())
    training.step()
    made.undo()
    assert seen == [(loss, FIRST_SCALE)]


def test_an_update_that_overflowed_is_left_out_and_the_next_one_is_made(installed: Patch) -> None:
    training = Training()
    installed.optimizer_made(training.optimizer)
    before = training.model.weight.detach().clone()
    training.step(factor=float("inf"))
    assert torch.equal(training.model.weight, before)
    training.step()
    assert torch.isfinite(training.model.weight).all()
    assert not torch.equal(training.model.weight, before)


def test_gradients_that_are_added_up_are_an_error_and_not_another_sum(installed: Patch) -> None:
    training = Training()
    installed.optimizer_made(training.optimizer)
    training.loss().backward()  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError, match="added up over several backward passes"):
        training.loss().backward()  # type: ignore[no-untyped-call]


def test_gradients_that_are_thrown_away_are_no_sum(installed: Patch) -> None:
    training = Training()
    installed.optimizer_made(training.optimizer)
    training.loss().backward()  # type: ignore[no-untyped-call]
    found = training.step()
    installed.undo()
    assert found == pytest.approx(Training().step(), rel=1e-6)


@pytest.mark.parametrize("scheduler_first", [True, False])
def test_learning_rate_schedulers_are_served(installed: Patch, scheduler_first: bool) -> None:
    training = Training()
    if not scheduler_first:
        installed.optimizer_made(training.optimizer)
    scheduler = torch.optim.lr_scheduler.StepLR(training.optimizer, step_size=1, gamma=0.5)
    if scheduler_first:
        installed.optimizer_made(training.optimizer)
    for _ in range(3):
        training.step()
        scheduler.step()
    assert training.optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.5**3)


def test_switched_off_between_two_steps_nothing_is_scaled_any_more(installed: Patch) -> None:
    training = Training(torch.optim.Adam)
    installed.optimizer_made(training.optimizer)
    training.step()
    installed.undo()
    assert "step" not in vars(training.optimizer)
    reference = Training(torch.optim.Adam)
    reference.step()
    assert training.step() == pytest.approx(reference.step(), rel=1e-5)


def test_the_patched_script_trains_as_the_lever_did(tmp_path: Path) -> None:
    text = SCRIPT.read_text()
    path = tmp_path / "train.py"
    path.write_text(text)
    (patched,) = patch(Fp16Autocast().edits(replace(run_of(path), device="Tesla T4")), root=tmp_path).texts.values()

    made = Patch()
    Fp16Autocast().install(made)
    told = text.replace("loader = ", "optimizer_made(optimizer)\nloader = ", 1)
    under_lever = _trained(told, optimizer_made=made.optimizer_made)
    made.undo()
    by_source = _trained(patched.replace('"cuda"', '"cpu"'))
    for one, other in zip(under_lever, by_source, strict=True):
        assert torch.equal(one, other)
    assert not all(torch.equal(one, other) for one, other in zip(under_lever, _trained(text), strict=True))


def _trained(code: str, **names: Any) -> list[torch.Tensor]:
    exec(compile(code, "train.py", "exec"), names)
    return [parameter.detach() for parameter in names["model"].parameters()]
