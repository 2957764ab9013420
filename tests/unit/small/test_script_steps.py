"""native_steps(): a script trains as before, only natively; what is not known is left to torch."""

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn, optim

from hotlap.errors import UserError
from hotlap.levers import Patch
from hotlap.native import core
from hotlap.small import compile_step, native_steps
from hotlap.small.program import Unsupported
from hotlap.small.script_steps import NativeSteps, Parts

pytestmark = pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")

Train = Callable[[nn.Module, optim.Optimizer], list[float]]
X, Y = torch.randn(64, 5, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 3


@contextmanager
def installed(parts: Parts = "all") -> Iterator[NativeSteps]:
    steps, patch = NativeSteps(), Patch()
    steps.install(patch.set, parts)
    try:
        yield steps
    finally:
        patch.undo()


def model() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))


def plain(net: nn.Module, optimizer: optim.Optimizer) -> list[float]:
    losses = []
    for step in range(40):
        rows = slice(step % 4 * 16, step % 4 * 16 + 16)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(X[rows]), Y[rows])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


def clipped(net: nn.Module, optimizer: optim.Optimizer) -> list[float]:
    losses = []
    for _ in range(40):
        loss = nn.functional.cross_entropy(net(X), Y, label_smoothing=0.1)
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(float(nn.utils.clip_grad_norm_(net.parameters(), 0.1)))
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    return losses


def accumulated(net: nn.Module, optimizer: optim.Optimizer) -> list[float]:
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        for half in (slice(0, 32), slice(32, 64)):
            loss = nn.functional.cross_entropy(net(X[half]), Y[half]) / 2
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.item())
        optimizer.step()
    return losses


def scheduled(net: nn.Module, optimizer: optim.Optimizer) -> list[float]:
    key = "momentum" if "momentum" in optimizer.defaults else "betas"
    if optimizer.defaults[key]:
        scheduler: Any = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.02, total_steps=41)
    else:
        scheduler = optim.lr_scheduler.StepLR(optimizer, 5)
    losses = []
    for _ in range(40):
        losses += plain_step(net, optimizer)
        scheduler.step()
    return losses


def plain_step(net: nn.Module, optimizer: optim.Optimizer) -> list[float]:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(X), Y) + 1e-3 * sum(p.square().sum() for p in net.parameters())
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return [loss.item()]


OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "Adam": lambda p: optim.Adam(p, lr=0.01),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-3),
}


@pytest.mark.parametrize("train", [plain, clipped, accumulated, scheduled])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_trains_as_torch_does(train: Train, name: str) -> None:
    one, other = model(), model()
    before = OPTIMIZERS[name](one.parameters())
    expected = train(one, before)
    with installed() as steps:
        optimizer = OPTIMIZERS[name](other.parameters())
        got = train(other, optimizer)
    assert steps.notes == []
    assert got == pytest.approx(expected, rel=2e-3, abs=2e-4)
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=2e-2, atol=2e-3)
    first, second = before.state_dict(), optimizer.state_dict()
    assert first["param_groups"] == second["param_groups"]
    for number in first["state"]:
        assert first["state"][number].keys() == second["state"][number].keys()


def test_the_model_and_the_optimizer_are_really_native(monkeypatch: pytest.MonkeyPatch) -> None:
    net = model()
    with installed():
        out = net(X)
        assert "Pass" in type(out.grad_fn).__name__
        out.sum().backward()
        optimizer = optim.Adam(net.parameters())
        monkeypatch.setattr(optimizer, "_init_group", None)  # torch's own step begins with it
        optimizer.step()


def test_gradients_read_in_between_are_torchs() -> None:
    net, other = model().double(), model().double()
    x = X.double().requires_grad_()
    nn.functional.cross_entropy(other(x), Y).backward()  # type: ignore[no-untyped-call]
    expected = [p.grad for p in other.parameters()] + [x.grad]
    x.grad = None
    with installed():
        nn.functional.cross_entropy(net(x), Y).backward()  # type: ignore[no-untyped-call]
    for got, wanted in zip([*[p.grad for p in net.parameters()], x.grad], expected, strict=True):
        assert got is not None
        assert wanted is not None
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-14)


def test_several_results_may_wait_for_their_gradient() -> None:
    net, other = model().double(), model().double()
    real, fake = X[:7].double(), X[7:20].double()
    (other(real).sum() * 2 - other(fake).square().sum()).backward()
    with installed():
        (net(real).sum() * 2 - net(fake).square().sum()).backward()
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-12, atol=1e-13)


def test_small_and_large_batches_in_turn_wait_for_their_gradients_side_by_side() -> None:
    """They may be the work of different extensions."""
    net, other = model().double(), model().double()
    large = torch.randn(1000, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    batches = [large[:8], large, large[8:24]]
    sum(other(batch).square().sum() for batch in batches).backward()
    with installed():
        sum(net(batch).square().sum() for batch in batches).backward()
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-11, atol=1e-11)


def test_a_batch_that_lies_elsewhere_is_torchs_to_refuse_or_to_take() -> None:
    """Its address is none that the core may read."""
    net = model()
    expected = net(X)
    with torch.inference_mode():
        unwatched = X.clone()
    net[0].requires_grad_(False)
    with installed() as steps:
        with pytest.raises(RuntimeError, match="meta"):
            net(X.to("meta"))
        torch.testing.assert_close(net(X.to_sparse()), expected, rtol=1e-4, atol=1e-6)
        net(unwatched).sum().backward()
        assert not steps.at_work


def test_a_layer_whose_result_nobody_uses_has_no_gradient() -> None:
    class Heads(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = torch.tanh(self[0](x))
            self[2](hidden)
            out: torch.Tensor = self[1](hidden)
            return out

    net = Heads(nn.Linear(5, 8), nn.Linear(8, 3), nn.Linear(8, 2))
    with installed() as steps:
        net(X).sum().backward()
        assert steps.at_work
    assert [p.grad is None for p in net.parameters()] == [False] * 4 + [True] * 2


def test_a_second_derivative_can_be_taken() -> None:
    net, other = model().double(), model().double()
    found = []
    for one, native in ((other, False), (net, True)):
        x = X[:4].double().requires_grad_()
        with installed() if native else contextmanager(lambda: iter([None]))():
            (slope,) = torch.autograd.grad(one(x).sum(), x, create_graph=True)
            slope.square().sum().backward()  # type: ignore[no-untyped-call]
        found.append(one[0].weight.grad)
    torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-12)


def test_a_second_derivative_can_be_taken_of_a_model_that_is_gone() -> None:
    x = X[:4].clone().requires_grad_()
    with installed():
        net = model()
        wanted = net.state_dict()
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        del net
        gc.collect()
        (found,) = torch.autograd.grad(slope.square().sum(), x)
    again = model()
    again.load_state_dict(wanted)
    (slope,) = torch.autograd.grad(again(x).sum(), x, create_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(slope.square().sum(), x)[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("scheduled", [False, True])
def test_models_and_optimizers_that_a_script_drops_are_freed(scheduled: bool) -> None:
    with installed() as steps:
        net = model()
        optimizer = optim.Adam(net.parameters())
        if scheduled:
            optim.lr_scheduler.StepLR(optimizer, 10)
        plain(net, optimizer)
        assert steps.at_work
        gone = [weakref.ref(one) for one in (net, optimizer, net[0].weight)]
        del net, optimizer
        gc.collect()
        assert [one() for one in gone] == [None] * 3


def added_to_weight(net: Any, x: torch.Tensor) -> None:
    with torch.no_grad():
        net[2].weight.add_(1.0)


def weight_moved(net: Any, x: torch.Tensor) -> None:
    """To other memory: what it had is free, and may be another tensor's by the time of the backward pass."""
    net[2].weight.data = net[2].weight.data + 1


def batch_moved(net: Any, x: torch.Tensor) -> None:
    x.data = x.data + 1


@pytest.mark.parametrize("change", [added_to_weight, weight_moved, batch_moved])
def test_what_changes_before_the_backward_pass_is_an_error(change: Callable[[Any, torch.Tensor], None]) -> None:
    net, x = model(), X.clone()
    with installed():
        loss = net(x).sum()
        change(net, x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_a_parameter_that_is_frozen_before_the_backward_pass_gets_no_gradient() -> None:
    net, criterion = model(), nn.CrossEntropyLoss()
    with installed():
        loss = criterion(net(X), Y)
        net[2].requires_grad_(False)
        loss.backward()
    assert [p.grad is None for p in net.parameters()] == [False, False, True, True, False, False]


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW])
def test_step_hooks_run_once_where_torch_takes_over(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if "step" in vars(optim.AdamW):  # until the first one is made it inherits Adam's
        monkeypatch.delattr(optim.AdamW, "step")
    net, calls = model(), []
    with installed() as steps:
        optimizer = kind(net.parameters(), lr=0.1)
        optimizer.register_step_post_hook(lambda *_: calls.append(1))
        plain(net, optimizer)
        assert steps.at_work
        net[2].weight.grad = torch.ones(16, 17)[:, :16]  # of a form that only torch takes
        optimizer.step()
    assert len(calls) == 41


def test_what_torch_keeps_no_state_of_has_none() -> None:
    net = model()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with installed() as steps:
        plain(net, optimizer)
        assert steps.at_work
    assert optimizer.state_dict()["state"] == {}


def test_a_state_of_the_optimizer_in_other_memory_is_updated() -> None:
    def trained() -> torch.Tensor:
        net = model()
        optimizer = optim.Adam(net.parameters(), lr=0.01)
        for _ in range(3):
            plain_step(net, optimizer)
            for state in optimizer.state.values():
                state["exp_avg"].data = state["exp_avg"].data * 2
        return net.get_parameter("0.weight")

    expected = trained()
    with installed():
        torch.testing.assert_close(trained(), expected, rtol=1e-4, atol=1e-5)


class Branching(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return out if out.detach().sum() > 0 else -out


class Drawing(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return out + torch.randn(1)


class Counting(nn.Sequential):
    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        out: torch.Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return out


class Masked(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first: Any = self[0]
        hidden = nn.functional.linear(x, weight=first.weight * 0.5, bias=first.bias)
        out: torch.Tensor = self[1](hidden)
        return out


class ByRows(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return out * x.shape[0]


@pytest.mark.parametrize(
    ("net", "says"),
    [
        (nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 3)), "dropout"),
        (nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)), "BatchNorm1d"),
        (Branching(nn.Linear(5, 8), nn.Linear(8, 3)), "cannot follow"),
        (Drawing(nn.Linear(5, 8), nn.Linear(8, 3)), "draws random numbers"),
        (Counting(nn.Linear(5, 8), nn.Linear(8, 3)), "Counting.forward changes calls"),
        (Masked(nn.Linear(5, 8), nn.Linear(8, 3)), "takes part in elementwise"),
        (ByRows(nn.Linear(5, 8), nn.Linear(8, 3)), "number of rows"),
    ],
)
def test_what_is_not_known_is_left_to_torch_and_said(net: nn.Module, says: str) -> None:
    torch.manual_seed(3)
    expected = net(X).detach()
    state = torch.get_rng_state()
    torch.manual_seed(3)
    with installed() as steps:
        got = net(X)
        assert "Pass" not in type(got.grad_fn).__name__
        assert len(steps.notes) == 1
        assert says in steps.notes[0]
    torch.testing.assert_close(got.detach(), expected, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_hook_on_a_module_is_heard_from_the_next_call_on() -> None:
    net, heard = model(), []
    with installed():
        net(X)
        net[1].register_forward_hook(lambda *_: heard.append(1))
        net(X)
    assert heard == [1]


def test_step_hooks_are_run() -> None:
    net, heard = model(), []
    with installed():
        optimizer = optim.Adam(net.parameters())
        optimizer.register_step_pre_hook(lambda *_: heard.append("before"))
        optimizer.register_step_post_hook(lambda *_: heard.append("after"))
        plain_step(net, optimizer)
    assert heard == ["before", "after"]


def test_an_optimizer_that_a_scheduler_wrapped_before_is_taken_over_and_given_back() -> None:
    net = model()
    optimizer = optim.Adam(net.parameters())
    scheduler = optim.lr_scheduler.StepLR(optimizer, 10)
    was = vars(optimizer)["step"]
    steps, patch = NativeSteps(), Patch()
    steps.install(patch.set)
    steps.take_over(optimizer, patch.set)
    plain_step(net, optimizer)
    scheduler.step()
    assert steps._updates.get(optimizer) is not None
    patch.undo()
    assert vars(optimizer)["step"] is was
    plain_step(net, optimizer)


def test_a_state_that_is_loaded_is_used() -> None:
    nets, optimizers = [model(), model()], []
    for net in nets:
        optimizers.append(optim.Adam(net.parameters(), lr=0.01))
        plain(net, optimizers[-1])
    saved = [net.state_dict() for net in nets], [o.state_dict() for o in optimizers]
    expected = plain(nets[0], optimizers[0])
    with installed():
        plain_step(nets[1], optimizers[1])
        optimizers[1].load_state_dict(saved[1][0])
        nets[1].load_state_dict(saved[0][0])
        other = model()
        other_optimizer = optim.Adam(other.parameters(), lr=0.01)
        plain(other, other_optimizer)
        other_expected = plain(other, other_optimizer)
    assert other_expected == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_frozen_and_unused_parameters_stay() -> None:
    net = model()
    weight = net.get_parameter("0.weight").requires_grad_(False)
    frozen = weight.clone()
    unused = nn.Parameter(torch.ones(3))
    with installed():
        optimizer = optim.Adam([*net.parameters(), unused], weight_decay=0.1)
        plain_step(net, optimizer)
    assert torch.equal(weight, frozen)
    assert torch.equal(unused, torch.ones(3))
    assert unused not in optimizer.state


class Pictures(nn.Module):
    """Flattens its samples in the way that is named."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.how = how
        self.first, self.last = nn.Linear(24, 16), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "flatten":
            x = x.flatten(1)
        elif self.how == "torch.flatten":
            x = torch.flatten(x, start_dim=1)
        elif self.how == "view":
            x = x.view(-1, 24)
        elif self.how == "size":
            x = x.view(x.size(0), -1)
        elif self.how == "shape":
            x = x.reshape(x.shape[0], 24)
        elif self.how == "scaled":
            x = (x * 2).flatten(1)
        out: torch.Tensor = self.last(torch.tanh(self.first(x)))
        return out


PICTURES = torch.randn(32, 2, 3, 4, generator=torch.Generator().manual_seed(0))


def shown(net: nn.Module, *, x: torch.Tensor = PICTURES) -> list[Any]:
    optimizer = optim.Adam(net.parameters(), lr=1e-2)
    found: list[Any] = []
    for _ in range(5):
        optimizer.zero_grad()
        given = x.clone().requires_grad_(True)
        out = net(given)
        nn.functional.cross_entropy(out, Y[:32]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        found += [out.detach(), given.grad]
    return found


@pytest.mark.parametrize("how", ["flatten", "torch.flatten", "view", "size", "shape", "scaled", "module"])
def test_samples_with_several_dimensions_that_are_flattened_first_run_natively(how: str) -> None:
    def net() -> nn.Module:
        torch.manual_seed(1)
        layers = nn.Sequential(nn.Flatten(), nn.Linear(24, 16), nn.Tanh(), nn.Linear(16, 3))
        return layers if how == "module" else Pictures(how)

    expected = shown(net())
    with installed():
        ours = net()
        found = shown(ours)
        native = "Pass" in type(ours(PICTURES).grad_fn).__name__
        rows = ours(PICTURES.flatten(1))
    assert native is (how != "scaled"), "what is done before it is flattened is left to torch"
    assert torch.allclose(rows, ours(PICTURES), atol=1e-6)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.shape == theirs.shape and torch.allclose(mine, theirs, atol=1e-5)


def test_other_shapes_and_formats_of_pictures_are_torchs_errors_or_the_same() -> None:
    turned = PICTURES.contiguous(memory_format=torch.channels_last)
    expected = shown(Pictures("flatten"), x=turned)
    with installed():
        ours = Pictures("flatten")
        for mine, theirs in zip(shown(ours, x=turned), expected, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-5)
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            ours(torch.randn(8, 5, 5))
        assert ours(torch.randn(8, 24)).shape == (8, 3) and ours(torch.randn(8, 4, 6)).shape == (8, 3)


def test_compile_step_takes_them_as_well() -> None:
    def made() -> Any:
        net = Pictures("flatten")
        return net, compile_step(net, nn.CrossEntropyLoss(), optim.Adam(net.parameters(), lr=1e-2))

    (one, ours), (other, rows) = made(), made()
    for _ in range(3):
        assert ours.step(PICTURES, Y[:32]) == rows.step(PICTURES.flatten(1), Y[:32])
    assert ours.fit(PICTURES, Y[:32], batch_size=8, shuffle=False) == rows.fit(
        PICTURES.flatten(1), Y[:32], batch_size=8, shuffle=False
    )
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    net = Pictures("scaled")
    refuses = compile_step(net, nn.CrossEntropyLoss(), optim.Adam(net.parameters()))
    with pytest.raises(Unsupported, match="works on samples of several dimensions before they are flattened"):
        refuses.step(PICTURES, Y[:32])
    with pytest.raises(Unsupported, match=r"takes 24 features, but samples of the shape \(2, 3, 5\) come in"):
        refuses.step(torch.randn(32, 2, 3, 5), Y[:32])


class Odd(nn.Module):
    """Does something that looks like what the native core knows."""

    def __init__(self, forward: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last, self.does = nn.Linear(4, 8), nn.Linear(8, 3), forward
        self.one, self.weight = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(3))
        self.register_buffer("doubles", torch.full((3,), 1.1, dtype=torch.float64))
        self.register_buffer("deeper", torch.full((1, 1, 3), 1.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.does(self, x)


def added_to(net: Any, x: torch.Tensor) -> torch.Tensor:
    hidden = net.first(x)
    before = hidden
    hidden += 1
    out: torch.Tensor = net.last(before + hidden)
    return out


def changed_through_a_view(net: Any, x: torch.Tensor) -> torch.Tensor:
    hidden = net.first(x)
    out: torch.Tensor = net.last(hidden + torch.relu_(hidden.view(-1, 8)))
    return out


ODD: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "some rows": lambda net, x: net.last(torch.tanh(net.first(x)))[:2],
    "rows put together": lambda net, x: net.last(torch.tanh(net.first(x)).view(-1, 16)[:, 8:]),
    "a result changed under another name": added_to,
    "a result changed through a view": changed_through_a_view,
    "the batch changed": lambda net, x: net.last(net.first(nn.functional.relu(x, inplace=True))),
    "one number as bias": lambda net, x: nn.functional.linear(net.first(x), net.last.weight, net.one),
    "a weight of one dimension": lambda net, x: nn.functional.linear(net.last(net.first(x)), net.weight),
    "doubles": lambda net, x: net.last(torch.tanh(net.first(x))) * net.doubles,
    "a dimension more": lambda net, x: net.last(torch.tanh(net.first(x))) * net.deeper,
}


@pytest.mark.parametrize("odd", ODD)
def test_a_forward_that_only_looks_like_a_known_one_does_what_it_does_in_torch(odd: str) -> None:
    found: list[Any] = []
    for native in (False, True):
        net, x = Odd(ODD[odd]), torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
        with installed() if native else contextmanager(lambda: iter([None]))():
            out = net(x)
        out.square().sum().backward()
        found.append((out.detach(), x, [p.grad for p in net.parameters() if p.grad is not None]))
    assert found[0][0].dtype == found[1][0].dtype
    torch.testing.assert_close(found[1], found[0])


def test_parameters_that_a_script_puts_in_place_of_others_are_updated() -> None:
    def trained(net: nn.Sequential) -> nn.Sequential:
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            plain_step(net, optimizer)
            net[0].weight = nn.Parameter(net.get_parameter("0.weight").detach() * 2)
            optimizer.param_groups[0]["params"][0] = net[0].weight
        plain_step(net, optimizer)
        return net

    expected = trained(model())
    with installed():
        found = trained(model())
    for p, q in zip(found.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


def test_a_second_derivative_after_a_weight_was_changed_is_an_error() -> None:
    net, x = model(), X[:4].clone().requires_grad_()
    with installed():
        out = net(x).sum()
        with torch.no_grad():
            net.get_parameter("0.weight").mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(out, x, create_graph=True)


@pytest.mark.parametrize("parts", ["model", "optimizer"])
def test_what_is_to_stay_torchs_stays_so(parts: Parts) -> None:
    net, twin = model(), model()
    optim.SGD(net.parameters())  # with the first one, torch wraps `step`
    step = optim.SGD.step
    with installed(parts) as steps:
        passes = "Pass" in type(net(X).grad_fn).__name__
        assert passes == (parts == "model")
        assert (optim.SGD.step is not step) == (parts == "optimizer")
        ours = plain(net, optim.SGD(net.parameters(), lr=0.1, momentum=0.9))
        assert steps.at_work
    assert ours == pytest.approx(plain(twin, optim.SGD(twin.parameters(), lr=0.1, momentum=0.9)), rel=1e-4)


def test_parts_that_there_are_not_are_refused() -> None:
    with pytest.raises(UserError, match="not 'loss'"):
        native_steps("loss")  # type: ignore[arg-type]
