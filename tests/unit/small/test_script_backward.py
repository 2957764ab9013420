"""`backward()` from a native loss into its network: torch's gradients, and its engine where others look on."""

import copy
import gc
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pytest
import torch
from torch import nn

from hotlap.levers import Patch
from hotlap.native import core
from hotlap.small.script_steps import known_steps

pytestmark = pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")

X, Y = torch.randn(12, 5), torch.arange(12) % 3


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What was given to autograd's engine, while the steps are native."""
    asked: list[Any] = []
    run: Any = vars(torch.autograd)["_engine_run_backward"]

    def watched(outputs: Any, *others: Any, **more: Any) -> Any:
        asked.append(outputs)
        return run(outputs, *others, **more)

    monkeypatch.setattr(torch.autograd, "_engine_run_backward", watched)
    patch = Patch()
    known_steps().install(patch.set)
    yield asked
    patch.undo()


def made() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


def gradients(net: nn.Module) -> list[torch.Tensor | None]:
    return [p.grad for p in net.parameters()]


def test_the_gradients_are_those_that_the_engine_brings(engine: list[Any]) -> None:
    straight, through = made(), made()
    criterion = nn.CrossEntropyLoss()
    criterion(straight(X), Y).backward()
    assert not engine
    criterion(through(X), Y).backward(retain_graph=True)
    assert len(engine) == 1
    for ours, theirs in zip(gradients(straight), gradients(through), strict=True):
        assert ours is not None and theirs is not None and torch.equal(ours, theirs)


@pytest.mark.parametrize("holds", [lambda g: g, lambda g: g.detach(), lambda g: g[1:], lambda g: g.numpy()])
def test_gradients_that_a_script_still_has_stay_as_they_are(engine: list[Any], holds: Callable[[Any], Any]) -> None:
    net, criterion = made(), nn.CrossEntropyLoss()
    criterion(net(X), Y).backward()
    had = [holds(p.grad) for p in net.parameters()]
    before = copy.deepcopy(had)
    for scale in (2, 3, 4):
        net.zero_grad()
        criterion(net(X * scale), Y).backward()
    for now, then in zip(had, before, strict=True):
        assert torch.equal(torch.as_tensor(now), torch.as_tensor(then))


def test_gradients_lie_where_those_lay_that_nobody_has_any_more(engine: list[Any]) -> None:
    net, criterion = made(), nn.CrossEntropyLoss()
    places = set()
    for _ in range(5):
        criterion(net(X), Y).backward()
        places.add(tuple(p.grad.data_ptr() for p in net.parameters()))
        net.zero_grad()
    assert len(places) == 1


def test_gradients_outlive_the_model(engine: list[Any]) -> None:
    net = made()
    nn.CrossEntropyLoss()(net(X), Y).backward()
    had = gradients(net)
    before = copy.deepcopy(had)
    del net
    gc.collect()
    made()
    assert all(torch.equal(now, then) for now, then in zip(had, before, strict=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("of", [torch.autograd, torch.Tensor], ids=["autograd.backward", "Tensor.backward"])
def test_who_stands_in_for_torchs_backward_sees_each_pass(
    of: Any, engine: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    net, seen = made(), list[Any]()
    nn.CrossEntropyLoss()(net(X), Y).backward()
    without = gradients(net)
    backward = of.backward

    @wraps(backward)
    def watched(*args: Any, **more: Any) -> None:
        seen.append(args)
        backward(*args, **more)

    monkeypatch.setattr(of, "backward", watched)
    steps = Patch()
    known_steps().installed = False  # as if it came after the one who watches
    known_steps().install(steps.set)
    net.zero_grad()
    nn.CrossEntropyLoss()(net(X), Y).backward()
    steps.undo()
    known_steps().installed = True
    assert len(seen) == 1 and not engine
    for ours, theirs in zip(gradients(net), without, strict=True):
        assert ours is not None and theirs is not None and torch.equal(ours, theirs)


def test_a_frozen_layer_gets_none_and_a_weighted_loss_its_weight(engine: list[Any]) -> None:
    net, plain = made(), made()
    net[0].requires_grad_(False)
    nn.MSELoss()(net(X), torch.ones(12, 3)).backward(torch.tensor(3.0))
    assert not engine and net[0].weight.grad is None
    ((plain(X) - 1).square().mean() * 3).backward()
    torch.testing.assert_close(net[2].weight.grad, plain[2].weight.grad)


@pytest.mark.parametrize(
    "look",
    [
        lambda net, out, loss, seen: out.register_hook(seen.append),
        lambda net, out, loss, seen: loss.register_hook(seen.append),
        lambda net, out, loss, seen: out.grad_fn.register_hook(lambda to, of: seen.extend(of)),
        lambda net, out, loss, seen: out.grad_fn.register_prehook(seen.extend),
        lambda net, out, loss, seen: loss.grad_fn.register_hook(lambda to, of: seen.extend(of)),
        lambda net, out, loss, seen: net[2].bias.register_hook(seen.append),
        lambda net, out, loss, seen: net[2].bias.register_post_accumulate_grad_hook(seen.append),
        lambda net, out, loss, seen: (out.retain_grad(), seen.append(out)),
        lambda net, out, loss, seen: (loss.retain_grad(), seen.append(loss)),
    ],
    ids=[
        "result",
        "loss",
        "node of the result",
        "before it",
        "node of the loss",
        "parameter",
        "after accumulation",
        "kept of the result",
        "kept of the loss",
    ],
)
def test_who_wants_to_see_a_gradient_sees_it(engine: list[Any], look: Callable[..., Any]) -> None:
    net = made()
    seen: list[Any] = []
    out = net(X)
    loss = nn.CrossEntropyLoss()(out, Y)
    look(net, out, loss, seen)
    loss.backward()
    assert len(engine) == len(seen) == 1
    assert seen[0].grad is not None if seen[0] is out or seen[0] is loss else seen[0] is not None


def test_where_processes_train_together_the_engine_calls_those_that_exchange_gradients(
    engine: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As DDP and FSDP do: by a hook on what adds to a parameter's gradient, which no attribute of it shows."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    net = made()
    adds: Any = net[0].weight.view_as(net[0].weight).grad_fn
    seen: list[Any] = []
    adds.next_functions[0][0].register_hook(lambda *gradients: seen.append(gradients))
    nn.CrossEntropyLoss()(net(X), Y).backward()
    assert len(engine) == len(seen) == 1


def test_gradients_add_up_as_in_torch(engine: list[Any]) -> None:
    net, plain = made(), made()
    for times in (1, 2):
        nn.CrossEntropyLoss()(net(times * X), Y).backward()
        nn.functional.cross_entropy(plain(times * X), Y).backward()  # type: ignore[no-untyped-call]
    assert len(engine) == 3  # the second of ours, and torch's own
    for ours, theirs in zip(gradients(net), gradients(plain), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_what_comes_before_the_network_gets_its_gradient(engine: list[Any]) -> None:
    net, x = made(), X.clone().requires_grad_()
    nn.CrossEntropyLoss()(net(x), Y).backward()
    assert len(engine) == 1 and x.grad is not None


def test_a_second_way_back_is_an_error_as_in_torch(engine: list[Any]) -> None:
    net = made()
    loss = nn.CrossEntropyLoss()(net(X), Y)
    loss.backward()
    assert not engine
    before = copy.deepcopy(gradients(net))
    for again in (loss.backward, lambda: torch.autograd.grad(loss, net[0].weight)):
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            again()
    assert all(
        torch.equal(a, b) for a, b in zip(gradients(net), before, strict=True) if a is not None and b is not None
    )


def test_a_result_or_a_weight_changed_in_between_is_noticed(engine: list[Any]) -> None:
    net = made()
    out = net(X)
    loss = nn.CrossEntropyLoss()(out, Y)
    with torch.no_grad():
        out.mul_(2)
    loss.backward()
    assert len(engine) == 1
    other = made()
    loss = nn.CrossEntropyLoss()(other(X), Y)
    with torch.no_grad():
        other[2].weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
