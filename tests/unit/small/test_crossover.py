"""Wide layers: whoever is faster does the step, measured once, on copies."""

import json
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from hotlap.levers import Patch
from hotlap.small import compile_step, crossover
from hotlap.small.native import core
from hotlap.small.script_steps import NativeSteps

pytestmark = pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "hotlap" / "crossover.json"


def test_is_measured_once_and_kept(cache: Path) -> None:
    calls = []

    def slow() -> None:
        calls.append("slow")
        time.sleep(0.002)

    def fast() -> None:
        calls.append("fast")

    assert crossover.torch_is_faster("a", lambda: (slow, fast))
    assert not crossover.torch_is_faster("b", lambda: (fast, slow))
    known = json.loads(cache.read_text())
    assert set(known) == {"a", "b"}
    calls.clear()
    assert crossover.torch_is_faster("a", lambda: (slow, fast))
    assert not calls


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": [1]}', "\x00"])
def test_a_broken_file_is_measured_anew(cache: Path, text: str) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text(text)
    assert crossover.torch_is_faster("a", lambda: (lambda: time.sleep(0.002), lambda: None))
    assert "a" in json.loads(cache.read_text())


def test_a_folder_that_cannot_be_written_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert crossover.torch_is_faster("a", lambda: (lambda: time.sleep(0.002), lambda: None))


@pytest.mark.parametrize("torch_wins", [False, True])
def test_both_paths_train_alike_and_measuring_trains_nothing(
    monkeypatch: pytest.MonkeyPatch, *, torch_wins: bool
) -> None:
    nets = []
    for native in (True, False):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 3))
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=0.01)
        x, y = torch.randn(64, 64), torch.randn(64, 3)
        if native:
            monkeypatch.setattr(crossover, "MARGIN", 1e9 if torch_wins else 0.0)
            step = compile_step(net, nn.MSELoss(), optimizer, clip_grad_norm=0.5)
            losses = [step.step(x, y) for _ in range(10)]
            losses += step.fit(x, y, epochs=3, batch_size=64, shuffle=False)
        else:
            for _ in range(13):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(net(x), y)
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                optimizer.step()
        nets.append((net, optimizer))
    for p, q in zip(nets[0][0].parameters(), nets[1][0].parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)
    states = [optimizer.state_dict()["state"][0]["step"] for _, optimizer in nets]
    assert states[0] == states[1] == 13


@pytest.mark.skipif(not core().views, reason="a torch before 2.10")
@pytest.mark.parametrize("torch_wins", [False, True])
def test_in_a_script_what_torch_does_faster_is_left_to_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch, *, torch_wins: bool
) -> None:
    monkeypatch.setattr(crossover, "MARGIN", 1e9 if torch_wins else 0.0)
    x, y = torch.randn(8, 128), torch.randn(8, 3)
    trained = []
    for native in (True, False):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(128, 512), nn.Tanh(), nn.Linear(512, 3))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        steps, patch = NativeSteps(), Patch()
        if native:
            steps.install(patch.set)
        state = torch.get_rng_state()
        for _ in range(5):
            optimizer.zero_grad()
            out = net(x)
            assert ("_Pass" in type(out.grad_fn).__name__) == (native and not torch_wins)
            nn.functional.mse_loss(out, y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        patch.undo()
        assert torch.equal(torch.get_rng_state(), state)
        assert steps.at_work == (native and not torch_wins)
        assert any("SGD.step is left to torch" in note for note in steps.notes) == (native and torch_wins)
        trained.append(net)
    for p, q in zip(trained[0].parameters(), trained[1].parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)
    assert len(json.loads(cache.read_text())) == 2, "the passes, and the update"


def test_a_tiny_network_is_never_measured(cache: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 100), nn.Tanh(), nn.Linear(100, 3))
    step = compile_step(net, nn.MSELoss(), torch.optim.SGD(net.parameters(), lr=0.1))
    step.step(torch.randn(512, 3), torch.randn(512, 3))
    assert not cache.exists()
