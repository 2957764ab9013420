"""What the probe finds out about optimizers and models."""

import functools

import torch

from hotlap.probe import watches
from hotlap.probe.facts import Facts
from hotlap.tune import tuner


def denormals_of(optimizer: torch.optim.Optimizer) -> float | None:
    facts = Facts()
    facts.made_optimizer(optimizer)
    return facts.optimizer_facts()[0].denormals


def test_denormal_numbers_are_counted_in_parameters_and_state() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], lr=1e-3)
    assert denormals_of(optimizer) == 0.0
    weight.grad = torch.zeros(3)
    optimizer.step()
    optimizer.state[weight]["exp_avg"][0] = 1e-40
    # One of three weights, two moments of three, and the count of steps.
    assert denormals_of(optimizer) == 1 / 10


def test_zero_and_the_smallest_normal_number_are_not_denormal() -> None:
    smallest = torch.finfo(torch.float32).smallest_normal
    weight = torch.nn.Parameter(torch.tensor([0.0, smallest, -smallest, -smallest / 2]))
    assert denormals_of(torch.optim.SGD([weight], lr=0.1)) == 1 / 4


def test_a_models_convolutions_are_told_with_its_call() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3, groups=2), torch.nn.Conv2d(4, 4, 3), torch.nn.Linear(2, 2))
    for turned in (False, True):
        facts = Facts()
        if turned:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        facts.saw_forward(model, torch.ones(1))
        (site,) = facts.all_call_sites()
        assert site.detail == {
            "returns": "Tensor",
            "parameters": True,
            "convolutions": 2,
            "grouped": 1,
            "channels_last": turned,
            "torch_forward": True,
        }


def test_the_first_look_asks_for_watches_that_there_are() -> None:
    assert set(tuner._WATCHES) <= set(watches.ALL)


def test_a_library_between_the_users_line_and_the_call_is_told() -> None:
    facts = Facts()
    functools.singledispatch(facts.saw_forward)(torch.nn.Linear(1, 1), torch.ones(1))
    facts.saw_forward(torch.nn.Linear(1, 1), torch.ones(1))
    through, direct = facts.all_call_sites()
    assert through.detail["through"] == "functools"
    assert "through" not in direct.detail
