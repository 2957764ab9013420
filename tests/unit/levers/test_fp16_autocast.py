"""fp16-autocast: which scripts it is for, and what goes through the scaler."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.levers.bf16_autocast import Bf16Autocast
from hotlap.levers.fp16_autocast import Fp16Autocast
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


def test_it_can_save_what_the_passes_take() -> None:
    assert Fp16Autocast().saves_at_most_s(on_a("Tesla T4"), ()) == pytest.approx(0.0022)


# What it does


def test_what_stands_between_the_two_stays_between_them(tmp_path: Path) -> None:
    clip = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    run = changed("        optimizer.step()\n", f"{clip}        optimizer.step()\n", tmp_path)
    text = next(iter(patch(Fp16Autocast().edits(run), root=tmp_path).texts.values()))
    assert text.endswith(
        "        loss.backward(gradient=scaler.scale(torch.ones_like(loss)))\n"
        "        scaler.unscale_(optimizer)\n"
        f"{clip}"
        "        scaler.step(optimizer)\n"
        "        scaler.update()\n"
    )


def test_a_name_that_the_script_uses_is_not_taken(tmp_path: Path) -> None:
    run = changed("torch.manual_seed(0)", "scaler = 1", tmp_path)
    text = next(iter(patch(Fp16Autocast().edits(run), root=tmp_path).texts.values()))
    assert 'loss_scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)' in text


def test_the_patched_script_trains_as_it_did(tmp_path: Path) -> None:
    text, patched = SCRIPT.read_text(), patched_for_the_cpu(tmp_path)
    assert "unscale_" in patched
    before, after = trained(text), trained(patched)
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other, rtol=0.02, atol=1e-3)
    assert not all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_gradients_are_their_own_between_the_backward_pass_and_the_update(tmp_path: Path) -> None:
    norms: list[float] = []
    for text in (SCRIPT.read_text(), patched_for_the_cpu(tmp_path, dtype="bfloat16")):
        clipped = re.sub(r"( +)((?:scaler|optimizer)\.step\()", r"\1note(model)\n\1\2", text)
        seen: list[float] = []
        trained(clipped, note=lambda model, seen=seen: seen.append(float(model[0].weight.grad.norm())))
        norms.append(seen[0])
    assert norms[1] == pytest.approx(norms[0], rel=0.05)


def test_updates_that_overflowed_are_left_out(tmp_path: Path) -> None:
    overflowing = patched_for_the_cpu(tmp_path).replace(".mean()", '.mean() * float("inf")')
    for one, other in zip(
        trained(overflowing), trained(SCRIPT.read_text().replace("range(3)", "range(0)")), strict=True
    ):
        assert torch.equal(one, other)


def patched_for_the_cpu(folder: Path, *, dtype: str = "float16") -> str:
    path = folder / "train.py"
    path.write_text(SCRIPT.read_text())
    (patched,) = patch(Fp16Autocast().edits(replace(run_of(path), device="Tesla T4")), root=folder).texts.values()
    return patched.replace('"cuda"', '"cpu"').replace("torch.float16", f"torch.{dtype}")


def trained(code: str, **names: Any) -> list[torch.Tensor]:
    exec(compile(code, "train.py", "exec"), names)
    return [parameter.detach() for parameter in names["model"].parameters()]
