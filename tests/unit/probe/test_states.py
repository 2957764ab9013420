"""What is found alive in the process: which tensors, in which order, and without keeping any of it alive."""

import copy
import gc
import sys
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from hotlap.probe.states import Place, States, _of_file, held, states
from hotlap.record import COPY


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """What the process of the tests holds is not looked through, as what is there before a script begins is not."""
    gc.freeze()
    yield
    gc.unfreeze()


class Net(nn.Module):
    """A layer with statistics behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(2)


class Average:
    """Holds tensors that are in no module."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.params = list(model.parameters())
        self.shadow = {"layer": [p.detach().clone() for p in model.parameters()][:1]}
        self.num_updates = 0

    def state_dict(self) -> dict[str, object]:
        return {"shadow": self.shadow, "num_updates": self.num_updates}


class Broken:
    """Is not ready to be saved."""

    def state_dict(self) -> dict[str, object]:
        raise RuntimeError


def labels(model: nn.Module) -> list[str]:
    """Those of the classes above: the process of the tests holds more."""
    return [p.label for p in held(model.parameters())[1] if p.label.startswith(("Net", "Average"))]


def digest(name: str) -> tuple[str, str]:
    (found,) = (state for state in states(0) if state.name == name)
    return found.digest, found.counts


STATISTICS = ["Net.norm.running_mean", "Net.norm.running_var"]
WEIGHTS = ["Net.layer.weight", "Net.layer.bias", "Net.norm.weight", "Net.norm.bias"]


def test_copies_and_helpers_are_found_behind_the_model_that_is_trained() -> None:
    model = Net()
    copied = copy.deepcopy(model)
    average = Average(model)

    def expected(trained: str, other: str) -> list[str]:
        names = [(trained, STATISTICS), (other, WEIGHTS), (other, STATISTICS)]
        told = [name.replace("Net", f"Net ({which})") for which, some in names for name in some]
        return [*told, "Average.shadow.layer.0"]

    assert labels(model) == expected("model", "2 of 2")
    assert labels(copied) == expected("1 of 2", "model"), "whichever of the two is trained comes first"
    assert average.model is model


def test_modules_of_one_class_are_told_by_what_holds_them_or_by_their_place_in_the_optimizers() -> None:
    class Agent:
        def __init__(self) -> None:
            self.actor = Net()
            self.critic = nn.Sequential(Net())  # adds nothing but a name
            self.latest = self.critic

    agent, loose = Agent(), Net()
    parts = {"actor": agent.actor, "critic": agent.critic, "3 of 3": loose}
    params = [p for part in parts.values() for p in part.parameters()]
    trained, _ = held(params)
    for name, part in parts.items():
        expected = [label.replace("Net", f"Net ({name})") for label in WEIGHTS]
        assert [trained[id(p)] for p in part.parameters()] == expected
    assert {f"Net ({name})" for name in parts} <= {state.name for state in states(0, params)}


def averages(model: nn.Module, kind: type) -> Any:
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    return weights if kind is dict else list(weights.values())


def copies(model: nn.Module) -> list[str]:
    """Digests of what of it is alive."""
    return sorted(state.digest for state in states(0, model.parameters()) if state.name == COPY)


def place_of_a_copy(model: nn.Module) -> Place:
    return next(place for place in held(model.parameters())[1] if place.label in ("copy.weight", "copy.0"))


def follows(place: Place, tensor: torch.Tensor) -> bool:
    return place.tensor() is tensor


@pytest.mark.parametrize("kind", [dict, list])
@pytest.mark.parametrize("of_class", [False, True])
def test_an_average_that_is_replaced_in_an_attribute_is_followed_and_the_old_one_is_let_go(
    kind: type, of_class: bool
) -> None:
    class Shadow:
        average: Any = None

    model, owner = nn.Linear(17, 13), Shadow if of_class else Shadow()
    owner.average = averages(model, kind)
    place, (before,) = place_of_a_copy(model), copies(model)
    owner.average = [p.detach() + 1.0 for p in model.parameters()]
    if kind is dict:
        owner.average = dict(zip(("weight", "bias"), owner.average, strict=True))
    assert follows(place, owner.average["weight" if kind is dict else 0])
    (after,) = copies(model)
    assert after != before


def test_an_average_that_is_replaced_in_a_variable_of_the_script_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    main: Any = sys.modules["__main__"]
    model = nn.Linear(17, 13)
    monkeypatch.setattr(main, "average", averages(model, list), raising=False)
    place = place_of_a_copy(model)
    main.average = [p.detach() + 1.0 for p in model.parameters()]
    assert follows(place, main.average[0])


@pytest.mark.parametrize("kind", [dict, list])
def test_an_average_in_a_variable_is_followed_until_it_is_replaced(kind: type) -> None:
    model = nn.Linear(17, 13)
    average, key = averages(model, kind), "weight" if kind is dict else 0
    place, (before,) = place_of_a_copy(model), copies(model)
    average[key] = average[key] + 1.0
    assert follows(place, average[key])
    (after,) = copies(model)
    assert after != before
    average = averages(model, kind)
    assert place.tensor() is None
    assert copies(model) == [before]
    assert average


def test_a_copy_is_the_same_in_any_form() -> None:
    model = nn.Linear(17, 13)
    average = averages(model, dict)
    (in_a_dictionary,) = copies(model)
    average = list(reversed(averages(model, list)))
    assert copies(model) == [in_a_dictionary]
    average = OrderedDict(averages(model, dict))
    assert copies(model) == [in_a_dictionary]
    assert average


def test_a_buffer_more_leaves_the_others_as_they_are() -> None:
    model = Net()
    names = ["Net", *(f"Net.norm.{name}" for name in ("running_mean", "running_var", "num_batches_tracked"))]
    before = [digest(name) for name in names]
    model.layer.register_buffer("mask", torch.ones(1, dtype=torch.long))
    assert [digest(name) for name in names] == before
    model.norm(torch.rand(4, 2))
    assert [first != second for first, second in zip(before, map(digest, names), strict=True)] == [False, *[True] * 3]


def test_a_list_that_holds_only_some_of_the_parameters_shapes_is_no_copy() -> None:
    model = nn.Linear(17, 13)
    some = [torch.zeros(13), torch.zeros(13), torch.zeros(5, 5)]
    assert not [p.label for p in held(model.parameters())[1] if p.label.startswith("copy")]
    del some


def test_the_state_of_one_of_several_modules_is_a_copy_by_its_names() -> None:
    model, proxies = nn.Linear(17, 13), nn.Parameter(torch.rand(3))
    some: Any = [{"weight": torch.zeros(13, 17)}, {"weight": torch.zeros(13, 17), "bias": torch.zeros(3)}]

    def follow() -> list[str]:
        return [state.counts for state in states(0, [*model.parameters(), proxies]) if state.name == COPY]

    assert not follow()
    best: Any = {key: value.clone() for key, value in model.state_dict().items()}
    (copied,) = follow()
    best = model.state_dict()
    assert follow() not in ([], [copied])
    del some, best


def test_a_module_that_only_wraps_another_counts_as_that() -> None:
    """As what torch.compile returns."""
    model = Net()
    wrapped = nn.Sequential(model)
    assert labels(model) == STATISTICS
    del wrapped


def test_a_place_follows_what_is_put_there_and_does_not_keep_it_alive() -> None:
    model = Net()
    place = next(p for p in held(model.parameters())[1] if p.label == STATISTICS[0])
    model.norm.running_mean = torch.full((2,), 7.0)
    found = place.tensor()
    assert found is not None and found.tolist() == [7.0, 7.0]
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert place.tensor() is None


def test_a_digest_tells_counters_from_other_content() -> None:
    average = Average(Net())
    before = digest("Average")
    average.shadow["layer"][0] += 1.0
    moved = digest("Average")
    average.num_updates += 1
    counted = digest("Average")
    assert before[0] != moved[0] != counted[0]
    assert before[1] == moved[1] != counted[1]


def test_an_optimizer_and_its_schedule_are_the_same_in_one_group_and_in_two() -> None:
    def digests(*, num_groups: int) -> list[tuple[str, str]]:
        params = [torch.full((k + 1,), 1.0 + k, requires_grad=True) for k in range(4)]
        groups = [{"params": params[k::num_groups]} for k in range(num_groups)]
        optimizer = torch.optim.RMSprop(groups, lr=0.1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 1 / (1 + k))
        for p in params:
            p.grad = torch.full_like(p, float(len(p)))
        optimizer.step()
        schedule.step()
        return [digest("RMSprop"), digest("LambdaLR")]

    assert digests(num_groups=1) == digests(num_groups=2)


def test_numbers_of_updates_are_the_same_however_averages_are_rounded() -> None:
    def counts_of(scale: float) -> str:
        often, later = (nn.Parameter(torch.full((4,), value)) for value in (1.0, 2.0))
        optimizer = torch.optim.Adam([often, later])
        for step in range(3):
            for param in (often, later)[: 1 + step // 2]:
                param.grad = scale * (param.detach() + torch.arange(4))
            optimizer.step()
        (found,) = [state.counts for state in states(0, [often, later]) if state.name == "Adam"]
        return found

    assert len({counts_of(1 + k * 2.0**-23) for k in range(8)}) == 1


def test_a_scheduler_that_is_stepped_counts() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    schedule = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda _: 1.0)
    before = digest("MultiplicativeLR")
    optimizer.step()
    schedule.step()
    assert digest("MultiplicativeLR")[1] != before[1]


def plateau(*metrics: float, **settings: float) -> tuple[str, str]:
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD([torch.zeros(1)], lr=0.1), **settings)  # type: ignore[arg-type]
    for metric in metrics:
        schedule.step(metric)
    return digest("ReduceLROnPlateau")


def test_what_a_scheduler_goes_by_is_a_setting_and_what_follows_from_losses_a_number() -> None:
    as_written, other_losses = plateau(0.5, 0.4), plateau(0.5, 0.6)
    assert as_written[0] != other_losses[0]
    assert as_written[1] == other_losses[1]
    others = [plateau(0.5, 0.4, factor=0.2), plateau(0.5, 0.4, patience=3), plateau(0.5)]
    assert as_written[1] not in [counts for _, counts in others]


def test_the_same_content_at_other_strides_has_the_same_digest() -> None:
    average = Average(Net())
    before = digest("Average")
    weight = average.shadow["layer"][0]
    average.shadow["layer"][0] = weight.t().contiguous().t()
    assert digest("Average") == before


def test_an_object_that_cannot_be_saved_is_no_failure() -> None:
    broken = Broken()
    assert digest("Broken")
    del broken


@pytest.mark.parametrize(("num_steps", "epoch", "expected"), [(100, 30, {30, 50, 99}), (100, None, {50, 99})])
def test_they_are_taken_in_the_middle_at_the_end_and_where_the_first_epoch_is_over(
    num_steps: int, epoch: int | None, expected: set[int]
) -> None:
    model = Net()
    taken = States(num_steps)
    for step in range(num_steps):
        taken.step_ended(step, epoch_started=step == 0 or (epoch is not None and step % epoch == 0))
    assert {state.step for state in taken.seen if state.name == "Net"} == expected
    assert model


def digest_of_parameters(name: str) -> str:
    (found,) = (state for state in states(0) if state.name == name)
    return found.parameters


def test_what_ranks_share_are_the_parameters_alone() -> None:
    model = Net()
    (before,) = (state for state in states(0) if state.name == "Net")
    model.norm(torch.randn(4, 2))
    (other_statistics,) = (state for state in states(0) if state.name == "Net")
    assert before.parameters == other_statistics.parameters
    assert not digest_of_parameters("Net.norm.running_mean")
    with torch.no_grad():
        model.layer.bias.add_(1.0)
    (other_weights,) = (state for state in states(0) if state.name == "Net")
    assert before.parameters != other_weights.parameters


class Regular(nn.Module):
    """Parts that work otherwise in training, and one that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.drop = nn.Dropout(0.1)
        self.norm = nn.BatchNorm1d(2)


def test_settings_of_parts_are_told() -> None:
    model = Regular()
    drop, norm = "Regular.drop (Dropout)", "Regular.norm (BatchNorm1d)"
    before = {name: digest(name) for name in (drop, norm)}
    assert not [state for state in states(0) if state.name.startswith("Regular.layer")]
    model.drop.inplace = True  # no number
    assert digest(drop) == before[drop]
    model.drop.eval()
    assert digest(drop)[1] != before[drop][1]
    model.norm.momentum = 0.01
    assert digest(norm)[1] != before[norm][1]


def test_what_is_trained_stands_in_the_order_of_the_models_however_it_is_grouped() -> None:
    model, loose = Net(), torch.zeros(1, requires_grad=True)
    params = [loose, *reversed(list(model.parameters()))]
    labels, _ = held(params)
    assert list(labels) == [id(p) for p in (*model.parameters(), loose)]
    assert list(labels.values()) == [*WEIGHTS, "parameter 0"]


def saved_as(content: Any) -> dict[str, tuple[str, tuple[float, ...]]]:
    """Name -> (counts, sketch) of what torch.save writes of it."""
    return {state.name: (state.counts, state.sketch) for state in _of_file(0, "last.pt", content)}


def test_each_entry_of_what_is_saved_is_told_by_itself_and_counters_apart_from_weights() -> None:
    model = nn.Linear(17, 13)
    optimizer = torch.optim.Adam(model.parameters())

    def parts() -> dict[str, Any]:
        return {"model": model, "ema": {"shadow": model.state_dict()}, "opt": optimizer.state_dict(), "epoch": 3}

    model(torch.ones(2, 17)).sum().backward()
    optimizer.step()
    before = saved_as(parts())
    assert list(before) == ["last.pt (model)", "last.pt (ema)", "last.pt (opt)"]
    assert list(saved_as(list(parts().values()))) == ["last.pt (0)", "last.pt (1)", "last.pt (2)"]
    for state in optimizer.state.values():
        state["step"] += 100
    after = saved_as(parts())
    assert [name for name in before if before[name] != after[name]] == ["last.pt (opt)"]
    assert before["last.pt (opt)"][1] == after["last.pt (opt)"][1], "numbers without the counters"
    for whole in (model, model.state_dict(), [*model.parameters()], {k: {"w": torch.ones(2)} for k in range(99)}):
        assert list(saved_as(whole)) == ["last.pt"]


def test_a_copy_that_follows_the_parameters_has_other_settings_than_one_that_does_not() -> None:
    model = nn.Linear(17, 13)

    def counts() -> list[str]:
        return [state.counts for state in states(0, model.parameters()) if state.name == COPY]

    kept = {name: value.clone() for name, value in model.state_dict().items()}
    copied = counts()
    kept = dict(model.state_dict())
    assert len(copied) == len(counts()) == 1 and copied != counts()
    assert kept["weight"].data_ptr() == model.weight.data_ptr()
