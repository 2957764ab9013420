"""Native training steps against torch's own, and what is refused or noticed."""

import copy
import pickle
import platform
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn, optim
from torch.optim.optimizer import register_optimizer_step_post_hook

from hotlap.native import Core, core
from hotlap.small import CompiledStep, Unsupported, compile_step

needs_core = pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")

OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.05),
    "sgd-decay": lambda p: optim.SGD(p, lr=0.05, weight_decay=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "maximize": lambda p: optim.SGD(p, lr=0.001, maximize=True),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "adam-decay": lambda p: optim.Adam(p, lr=0.01, betas=(0.8, 0.95), weight_decay=0.1, eps=1e-6),
    "adamw": lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.2),
    "some decoupled": lambda p: optim.Adam(
        [{"params": [q], "decoupled_weight_decay": k % 2 == 0} for k, q in enumerate(p)], lr=0.01, weight_decay=0.3
    ),
}


def network(inputs: int = 5, hidden: int = 37, outputs: int = 3) -> Any:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


def torch_step(model: nn.Module, loss: Any, optimizer: optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> float:
    optimizer.zero_grad()
    value = loss(model(x), y)
    value.backward()
    optimizer.step()
    return float(value.detach())


def assert_same(a: nn.Module, b: nn.Module, *, tolerance: float) -> None:
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=tolerance, atol=tolerance)


@needs_core
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_optimizer_updates_as_torchs_does(name: str, dtype: torch.dtype) -> None:
    ours = network().to(dtype)
    theirs = copy.deepcopy(ours)
    mine, other = OPTIMIZERS[name](ours.parameters()), OPTIMIZERS[name](theirs.parameters())
    step = compile_step(ours, nn.MSELoss(), mine)
    x, y = torch.randn(20, 5, dtype=dtype), torch.randn(20, 3, dtype=dtype)
    for _ in range(10):
        loss = step.step(x, y)
        assert loss == pytest.approx(
            torch_step(theirs, nn.MSELoss(), other, x, y), rel=1e-4 if dtype == torch.float32 else 1e-10
        )
    assert_same(ours, theirs, tolerance=2e-4 if dtype == torch.float32 else 1e-10)


@needs_core
@pytest.mark.skipif(platform.machine() != "x86_64", reason="denormal numbers are cleared on x86")
@pytest.mark.parametrize(("eps", "left"), [(1e-8, 0.0), (1e-30, 9e-41)])
def test_averages_of_a_weight_without_gradients_end_at_zero_not_among_denormal_numbers(eps: float, left: float) -> None:
    """Which cost a hundred cycles each; an eps that would not hide them keeps them."""
    net = network()
    optimizer = optim.Adam(net.parameters(), lr=0.01, eps=eps)
    step = compile_step(net, nn.MSELoss(), optimizer)
    step.step(torch.zeros(4, 5), torch.zeros(4, 3))
    weight = net[0].weight  # of inputs that are 0
    optimizer.state[weight]["exp_avg"].fill_(1e-40)
    before = weight.detach().clone()
    step.step(torch.zeros(4, 5), torch.zeros(4, 3))
    assert float(optimizer.state[weight]["exp_avg"].max()) == pytest.approx(left, rel=1e-4, abs=0.0)
    torch.testing.assert_close(weight.detach(), before)


@needs_core
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_goes_on_in_torch_from_a_saved_state(name: str) -> None:
    ours = network().double()
    theirs = copy.deepcopy(ours)
    mine, other = OPTIMIZERS[name](ours.parameters()), OPTIMIZERS[name](theirs.parameters())
    x, y = torch.randn(20, 5).double(), torch.randn(20, 3).double()
    step = compile_step(ours, nn.MSELoss(), mine)
    for _ in range(4):
        step.step(x, y)
        torch_step(theirs, nn.MSELoss(), other, x, y)
    resumed = network().double()
    again = OPTIMIZERS[name](resumed.parameters())
    resumed.load_state_dict(ours.state_dict())
    again.load_state_dict(copy.deepcopy(mine.state_dict()))
    for _ in range(4):
        torch_step(resumed, nn.MSELoss(), again, x, y)
        torch_step(theirs, nn.MSELoss(), other, x, y)
    assert_same(resumed, theirs, tolerance=1e-10)


@needs_core
def test_training_goes_on_natively_from_torchs_state() -> None:
    ours = network().double()
    theirs = copy.deepcopy(ours)
    mine, other = optim.Adam(ours.parameters()), optim.Adam(theirs.parameters())
    x, y = torch.randn(20, 5).double(), torch.randn(20, 3).double()
    step = compile_step(ours, nn.MSELoss(), mine)
    for native in (False, True, False, True):
        torch_step(theirs, nn.MSELoss(), other, x, y)
        step.step(x, y) if native else torch_step(ours, nn.MSELoss(), mine, x, y)
    mine.load_state_dict(copy.deepcopy(other.state_dict()))
    step.step(x, y)
    torch_step(theirs, nn.MSELoss(), other, x, y)
    assert_same(ours, theirs, tolerance=1e-10)


@needs_core
def test_schedulers_change_the_rate_of_each_group() -> None:
    ours = network().double()
    theirs = copy.deepcopy(ours)

    def groups(model: nn.Module) -> optim.Optimizer:
        parameters: Any = list(model.parameters())
        return optim.AdamW(
            [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.1, "weight_decay": 0.3}], lr=0.02
        )

    mine, other = groups(ours), groups(theirs)
    schedulers = [optim.lr_scheduler.ExponentialLR(o, 0.5) for o in (mine, other)]
    step = compile_step(ours, nn.L1Loss(), mine)
    x, y = torch.randn(9, 5).double(), torch.randn(9, 3).double()
    for _ in range(5):
        step.step(x, y)
        torch_step(theirs, nn.L1Loss(), other, x, y)
        for scheduler in schedulers:
            scheduler.step()
    assert_same(ours, theirs, tolerance=1e-10)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 20)
        self.inner = nn.Linear(20, 20, bias=False)
        self.last = nn.Linear(20, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.softplus(self.first(x.view(x.size(0), -1)))
        x = x + F.silu(self.inner(x))
        out: torch.Tensor = self.last(x).squeeze(-1)
        return out


@needs_core
def test_a_module_with_a_forward_of_its_own_is_followed() -> None:
    torch.manual_seed(0)
    ours = Residual().double()
    theirs = copy.deepcopy(ours)
    mine, other = optim.Adam(ours.parameters()), optim.Adam(theirs.parameters())
    step = compile_step(ours, F.mse_loss, mine)
    x, y = torch.randn(11, 6).double(), torch.randn(11).double()
    for _ in range(4):
        assert step.step(x, y) == pytest.approx(torch_step(theirs, F.mse_loss, other, x, y), rel=1e-10)
    assert_same(ours, theirs, tolerance=1e-10)


@needs_core
def test_tied_and_frozen_parameters_train_as_in_torch() -> None:
    torch.manual_seed(0)
    shared = nn.Linear(8, 8)
    frozen = nn.Linear(8, 8)
    frozen.requires_grad_(False)
    ours = nn.Sequential(shared, nn.Tanh(), frozen, nn.Sigmoid(), shared, nn.Linear(8, 2)).double()
    theirs = copy.deepcopy(ours)
    mine, other = optim.Adam(ours.parameters(), lr=0.01), optim.Adam(theirs.parameters(), lr=0.01)
    step = compile_step(ours, nn.MSELoss(), mine)
    x, y = torch.randn(11, 8).double(), torch.randn(11, 2).double()
    for _ in range(4):
        step.step(x, y)
        torch_step(theirs, nn.MSELoss(), other, x, y)
    assert_same(ours, theirs, tolerance=1e-10)


@needs_core
def test_fit_is_the_same_as_its_steps_one_by_one() -> None:
    ours, theirs = network().double(), network().double()
    mine, other = optim.Adam(ours.parameters()), optim.Adam(theirs.parameters())
    x, y = torch.randn(50, 5).double(), torch.randn(50, 3).double()
    losses = compile_step(ours, nn.MSELoss(), mine).fit(
        x, y, epochs=2, batch_size=16, generator=torch.Generator().manual_seed(3)
    )
    generator = torch.Generator().manual_seed(3)
    step = compile_step(theirs, nn.MSELoss(), other)
    for epoch in range(2):
        order = torch.randperm(50, generator=generator)
        parts = [(len(rows), step.step(x[rows], y[rows])) for rows in torch.split(order, 16)]
        assert losses[epoch] == pytest.approx(sum(n * loss for n, loss in parts) / 50)
    assert_same(ours, theirs, tolerance=0)


@needs_core
def test_fit_without_shuffling_can_drop_the_last_batch_and_stop() -> None:
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.0)
    x, y = torch.randn(10, 5), torch.randn(10, 3)
    step = compile_step(model, nn.MSELoss(), optimizer)
    losses = step.fit(x, y, epochs=5, batch_size=4, shuffle=False, drop_last=True, after_epoch=lambda n, _: n == 1)
    expected = float(F.mse_loss(model(x[:8]), y[:8]).detach())
    assert losses == pytest.approx([expected, expected])


@needs_core
def test_a_batch_of_no_rows_updates_with_gradients_of_zero() -> None:
    ours = network().double()
    theirs = copy.deepcopy(ours)
    mine, other = optim.AdamW(ours.parameters()), optim.AdamW(theirs.parameters())
    loss = nn.MSELoss(reduction="sum")
    x, y = torch.randn(0, 5).double(), torch.randn(0, 3).double()
    assert compile_step(ours, loss, mine).step(x, y) == torch_step(theirs, loss, other, x, y) == 0.0
    assert_same(ours, theirs, tolerance=1e-12)


@needs_core
def test_views_with_strides_are_read_right() -> None:
    model = network()
    step = compile_step(model, nn.MSELoss(), optim.SGD(model.parameters(), lr=0.0))
    x, y = torch.randn(5, 14).T, torch.randn(14, 6)[:, ::2]
    assert step.step(x, y) == pytest.approx(float(F.mse_loss(model(x), y).detach()), rel=1e-5)


REFUSED: dict[str, tuple[Callable[[], tuple[nn.Module, Any, Callable[[Any], optim.Optimizer]]], str]] = {
    "layer": (
        lambda: (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), nn.MSELoss(), OPTIMIZERS["sgd"]),
        "BatchNorm1d",
    ),
    "loss": (lambda: (network(), nn.KLDivLoss(), OPTIMIZERS["sgd"]), "KLDivLoss"),
    "weights": (lambda: (network(), nn.CrossEntropyLoss(torch.ones(3)), OPTIMIZERS["sgd"]), "weights"),
    "smoothing": (lambda: (network(), nn.CrossEntropyLoss(label_smoothing=0.1), OPTIMIZERS["sgd"]), "label_smoothing"),
    "optimizer": (lambda: (network(), nn.MSELoss(), optim.Adagrad), "Adagrad"),
    "dropout": (
        lambda: (nn.Sequential(nn.Linear(5, 3), nn.Dropout()), nn.MSELoss(), OPTIMIZERS["sgd"]),
        "dropout that is on",
    ),
    "gelu": (lambda: (nn.Sequential(nn.Linear(5, 3), nn.GELU()), nn.MSELoss(), OPTIMIZERS["sgd"]), "GELU"),
    "amsgrad": (lambda: (network(), nn.MSELoss(), lambda p: optim.Adam(p, amsgrad=True)), "amsgrad"),
    "dampening": (
        lambda: (network(), nn.MSELoss(), lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3)),
        "dampening=0.3",
    ),
    "dtype": (lambda: (network().half(), nn.MSELoss(), OPTIMIZERS["sgd"]), "float16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused_by_name(name: str) -> None:
    make, word = REFUSED[name]
    model, loss, optimizer = make()
    with pytest.raises(Unsupported, match=word):
        compile_step(model, loss, optimizer(model.parameters()))


@needs_core
def test_a_target_that_torch_would_broadcast_is_refused() -> None:
    model = network(outputs=1)
    step = compile_step(model, nn.MSELoss(), optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(Unsupported, match="target"):
        step.step(torch.randn(4, 5), torch.randn(4))


@needs_core
def test_a_label_without_a_column_is_an_error() -> None:
    model = network()
    step = compile_step(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(IndexError, match="label"):
        step.step(torch.randn(4, 5), torch.tensor([0, 1, 2, 3]))


def moved(model: Any) -> None:
    model[0].weight.data = model[0].weight.data.clone() * 2


def replaced(model: Any) -> None:
    model[2] = nn.Linear(37, 37)


def other_activation(model: Any) -> None:
    model[1] = nn.Sigmoid()


def frozen(model: Any) -> None:
    model[0].weight.requires_grad_(False)


def resized(model: Any) -> None:
    """Both sides of the hidden layer, in place of the old memory, as a pruning library does it."""
    model[2].weight.data = model[2].weight.data[:20].clone()
    model[2].bias.data = model[2].bias.data[:20].clone()
    model[2].out_features = model[4].in_features = 20
    model[4].weight.data = model[4].weight.data[:, :20].clone()


def tied(model: Any) -> None:
    model.insert(3, nn.Tanh())
    model.insert(4, nn.Linear(37, 37))
    model[4].weight = model[2].weight


@needs_core
@pytest.mark.parametrize("change", [moved, replaced, other_activation, frozen, resized, tied])
def test_a_change_of_the_model_between_calls_is_noticed(change: Callable[[Any], None]) -> None:
    model = network()
    step = compile_step(model, nn.MSELoss(), optim.SGD(model.parameters(), lr=0.1))
    x, y = torch.randn(4, 5), torch.randn(4, 3)
    step.step(x, y)
    change(model)
    before = copy.deepcopy(model)
    assert step.step(x, y) == pytest.approx(float(F.mse_loss(before(x), y).detach()), rel=1e-4)
    if change is frozen:
        assert torch.equal(before[0].weight, model[0].weight)


HOOKS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "of a module": (lambda model: model[1].register_forward_hook(lambda *_: None), "hooks"),
    "of a gradient": (lambda model: model[0].weight.register_hook(lambda g: g), "hook"),
    "behind a gradient": (
        lambda model: model[0].weight.register_post_accumulate_grad_hook(lambda _: None),
        "gradient hook",
    ),
    "of all optimizers": (lambda _: register_optimizer_step_post_hook(lambda *_: None), "step hooks"),
}


@needs_core
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_between_calls_is_refused_until_it_is_removed(hook: str) -> None:
    model, (put, said) = network(), HOOKS[hook]
    step = compile_step(model, nn.MSELoss(), optim.SGD(model.parameters(), lr=0.1))
    x, y = torch.randn(4, 5), torch.randn(4, 3)
    step.step(x, y)
    handle = put(model)
    try:
        with pytest.raises(Unsupported, match=said):
            step.step(x, y)
    finally:
        handle.remove()
    step.step(x, y)


def state_replaced(optimizer: optim.Optimizer) -> None:
    for p, state in optimizer.state.items():
        optimizer.state[p] = {name: value.clone() + 1 for name, value in state.items()}


def state_moved(optimizer: optim.Optimizer) -> None:
    for state in optimizer.state.values():
        state["exp_avg"].data = state["exp_avg"].data * 2


def another_parameter(optimizer: optim.Optimizer) -> None:
    optimizer.param_groups[0]["params"][0] = nn.Parameter(torch.ones(2).double())


def another_list(optimizer: optim.Optimizer) -> None:
    optimizer.param_groups[0]["params"] = optimizer.param_groups[0]["params"][1:]


def betas_of_a_file(optimizer: optim.Optimizer) -> None:
    optimizer.param_groups[0]["betas"] = [0.5, 0.6]


@needs_core
@pytest.mark.parametrize("change", [state_replaced, state_moved, another_parameter, another_list, betas_of_a_file])
def test_what_is_changed_inside_of_an_optimizer_counts_from_the_next_step_on(
    change: Callable[[optim.Optimizer], None],
) -> None:
    ours, theirs = network().double(), network().double()
    mine, other = optim.Adam(ours.parameters(), lr=0.01), optim.Adam(theirs.parameters(), lr=0.01)
    x, y = torch.randn(9, 5).double(), torch.randn(9, 3).double()
    step = compile_step(ours, nn.MSELoss(), mine)
    for k in range(4):
        step.fit(x, y, batch_size=9, shuffle=False) if k % 2 or change is state_moved else step.step(x, y)
        torch_step(theirs, nn.MSELoss(), other, x, y)
        change(mine)
        change(other)
    assert_same(ours, theirs, tolerance=1e-10)


@needs_core
@pytest.mark.parametrize("call", ["step", "fit"])
def test_what_becomes_unknown_after_compiling_is_refused_by_name(call: str) -> None:
    model, loss = network(), nn.CrossEntropyLoss()
    step = getattr(compile_step(model, loss, optim.SGD(model.parameters(), lr=0.1)), call)
    x, y = torch.randn(4, 5), torch.tensor([0, 1, 2, 0])
    step(x, y)
    with torch.autocast("cpu"), pytest.raises(Unsupported, match="autocast"):
        step(x, y)
    loss.label_smoothing = 0.1
    with pytest.raises(Unsupported, match="label_smoothing"):
        step(x, y)
    loss.label_smoothing = 0.0
    step(x, y)


@needs_core
def test_a_setting_of_the_loss_counts_from_the_next_step_on() -> None:
    model, loss = network(), nn.MSELoss()
    step = compile_step(model, loss, optim.SGD(model.parameters(), lr=0.0))
    x, y = torch.randn(4, 5), torch.randn(4, 3)
    mean = step.step(x, y)
    loss.reduction = "sum"
    assert step.step(x, y) == pytest.approx(12 * mean)


@needs_core
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda step: pickle.loads(pickle.dumps(step))])
def test_a_copy_trains_copies(copied: Callable[[CompiledStep], CompiledStep]) -> None:
    model = network()
    step = compile_step(model, nn.MSELoss(), optim.Adam(model.parameters()))
    x, y = torch.randn(4, 5), torch.randn(4, 3)
    step.step(x, y)
    other = copied(step)
    assert [step.step(x, y), step.step(x, y)] == [other.step(x, y), other.step(x, y)]
    assert_same(step.model, other.model, tolerance=0)


@needs_core
@pytest.mark.parametrize("train", [CompiledStep.step, CompiledStep.fit])
def test_a_backward_pass_from_before_an_update_is_an_error_as_in_torch(train: Callable[..., Any]) -> None:
    model, x = network(), torch.randn(4, 5)
    step = compile_step(model, nn.MSELoss(), optim.SGD(model.parameters(), lr=0.1))
    out = model(x).sum()
    train(step, x, torch.randn(4, 3))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


@needs_core
def test_a_state_of_an_optimizer_in_other_memory_is_seen_at_once() -> None:
    model = network()
    optimizer = optim.Adam(model.parameters())
    step = compile_step(model, nn.MSELoss(), optimizer)
    x, y = torch.randn(9, 5), torch.randn(9, 3)
    step.step(x, y)
    optimizer.state[model[4].bias]["exp_avg"].data = torch.ones(3)
    other = copy.deepcopy(step)
    assert [step.step(x, y), step.step(x, y)] == [other.step(x, y), other.step(x, y)]
    assert_same(model, other.model, tolerance=0)


@needs_core
def test_a_small_loss_of_logits_is_told_to_rounding() -> None:
    model = nn.Sequential(nn.Linear(1, 1))
    nn.init.constant_(model[0].weight, 1.0)  # type: ignore[arg-type]
    nn.init.zeros_(model[0].bias)  # type: ignore[arg-type]
    x, y = torch.full((4, 1), 10.0), torch.ones(4, 1)
    step = compile_step(model, nn.BCEWithLogitsLoss(), optim.SGD(model.parameters(), lr=0.0))
    assert step.step(x, y) == pytest.approx(F.binary_cross_entropy_with_logits(x.double(), y.double()).item(), rel=1e-5)


@needs_core
@pytest.mark.parametrize("frozen_first", [True, False])
def test_a_model_that_is_frozen_whole_is_refused(frozen_first: bool) -> None:
    model = network().requires_grad_(not frozen_first)
    x, y = torch.randn(8, 5), torch.randn(8, 3)
    with pytest.raises(Unsupported, match="no parameter to train"):
        step = compile_step(model, nn.MSELoss(), optim.SGD(model.parameters(), lr=0.1))
        model.requires_grad_(False)
        step.step(x, y)


@needs_core
def test_samples_of_another_width_after_an_epoch_are_refused_and_not_read() -> None:
    model = network()
    step = compile_step(model, nn.MSELoss(), optim.SGD(model.parameters(), lr=0.1))

    def widen(*_: object) -> None:
        model[0] = nn.Linear(500, 37)

    with pytest.raises(Unsupported, match=r"\(rows, 500\) is expected"):
        step.fit(torch.randn(8, 5), torch.randn(8, 3), epochs=2, after_epoch=widen)


@needs_core
@pytest.mark.parametrize("which", [0, 1])
def test_a_batch_that_wants_a_gradient_is_refused_at_any_step(which: int) -> None:
    model = network()
    step = compile_step(model, nn.MSELoss(), optim.SGD(model.parameters(), lr=0.1))
    batch = [torch.randn(4, 5), torch.randn(4, 3)]
    step.step(*batch)
    batch[which].requires_grad_()
    with pytest.raises(Unsupported, match="the batch requires a gradient"):
        step.step(*batch)


def test_without_the_core_it_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.small.program.core", lambda: Core(None, "", "There is none."))
    model = network()
    with pytest.raises(Unsupported, match=r"There is none\."):
        compile_step(model, nn.MSELoss(), optim.Adam(model.parameters()))


class Heads(nn.Module):
    """Has a second head, whose result it does not return."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.other = nn.Linear(5, 8), nn.Linear(8, 3), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        torch.log(self.other(hidden) * 0)  # nothing finite
        out: torch.Tensor = self.last(hidden)
        return out


@needs_core
def test_a_layer_whose_result_nobody_uses_is_not_trained() -> None:
    ours, theirs = Heads().double(), Heads().double()
    mine, other = (optim.AdamW(m.parameters(), lr=0.1, weight_decay=0.5) for m in (ours, theirs))
    step = compile_step(ours, nn.MSELoss(), mine)
    x, y = torch.randn(4, 5).double(), torch.randn(4, 3).double()
    for _ in range(3):
        step.step(x, y)
        torch_step(theirs, nn.MSELoss(), other, x, y)
    assert_same(ours, theirs, tolerance=1e-10)


@needs_core
def test_another_default_device_changes_nothing() -> None:
    """An order of the samples that lay on a GPU would be read as if it lay here."""
    found = []
    for device in ("cpu", "meta"):
        model = network()
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        x, y = torch.randn(12, 5), torch.randn(12, 3)
        with torch.device(device):
            step = compile_step(model, nn.MSELoss(), optimizer)
            step.fit(x, y, batch_size=4, generator=torch.Generator().manual_seed(0))
        found.append(model)
    assert_same(*found, tolerance=0)


@pytest.mark.parametrize("num_threads", [1, 2, 3, 7])
@pytest.mark.parametrize("sizes", [(64, 784, 128), (67, 333, 130), (300, 17, 500), (16, 600, 300), (33, 2100, 1001)])
def test_wide_layers_are_the_same_on_any_number_of_threads(sizes: tuple[int, int, int], num_threads: int) -> None:
    rows, inputs, hidden = sizes
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, inputs))
    theirs = copy.deepcopy(ours)
    x, y = torch.randn(rows, inputs), torch.randn(rows, inputs)
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        loss = compile_step(ours, nn.MSELoss(), torch.optim.SGD(ours.parameters(), lr=1.0)).step(x, y)
    finally:
        torch.set_num_threads(before)
    expected = nn.functional.mse_loss(theirs(x), y)
    expected.backward()  # type: ignore[no-untyped-call]
    torch.optim.SGD(theirs.parameters(), lr=1.0).step()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
