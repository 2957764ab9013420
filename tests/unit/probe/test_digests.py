"""Digests of batches: equal where batches are. What of them is new, and which gradients are not."""

import operator
from collections import UserDict
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from hotlap.probe.digests import (
    ELSEWHERE,
    WITH_GRADIENTS,
    WITHOUT,
    Digest,
    Draws,
    Fresh,
    Given,
    Rows,
    data_of,
    num_samples,
    samples,
    tells_apart,
)
from hotlap.probe.evidence import Lapses

WORDS = [torch.tensor([5, 9, 2]), torch.tensor([7, 2]), torch.tensor([4, 4, 8, 2])]
LENGTHS = torch.tensor([3, 2, 4])


def digests(batch: object) -> str:
    made = Digest()
    made.add(batch)
    found = made.take()
    assert found is not None
    return found


@pytest.mark.parametrize(
    "other",
    [
        (pad_sequence([*WORDS[:2], torch.tensor([4, 4, 1, 2])], batch_first=True), LENGTHS),
        (pad_sequence(WORDS[::-1], batch_first=True), LENGTHS),
        (pad_sequence(WORDS, batch_first=True), LENGTHS + 1),
        (pad_sequence(WORDS, batch_first=True).int(), LENGTHS),
        # Padded on the left.
        (pad_sequence(WORDS, batch_first=True).roll(1, 1), LENGTHS),
    ],
)
def test_other_data_are_other_data(other: object) -> None:
    as_written = digests((pad_sequence(WORDS, batch_first=True), LENGTHS))
    assert digests(other) != as_written


def test_every_kind_of_leaf_is_taken_in() -> None:
    scalar, labels, empty = torch.tensor(1.0), torch.tensor([1, 1, 1]), torch.empty(0, 3)
    assert digests([scalar, labels, empty, "text", {"k": 1}]) == digests([scalar, labels, empty, "text", {"k": 1}])
    assert digests(labels) != digests(torch.tensor([1, 1]))
    assert digests(["text"]) != digests(["other"])
    assert Digest().take() is None


@pytest.mark.parametrize("as_leaf", [torch.tensor, np.array, list])
def test_batches_of_any_mapping_and_of_arrays_are_told_apart(as_leaf: Callable[[list[list[int]]], object]) -> None:
    first, second = (digests(UserDict(x=as_leaf([[k, 2], [3, 4], [5, 6]]))) for k in (1, 7))
    assert first != second
    assert first == digests(UserDict(x=as_leaf([[1, 2], [3, 4], [5, 6]])))


@pytest.mark.parametrize(
    ("batch", "number"),
    [
        (UserDict(text=["a", "b"], x=torch.rand(3, 2)), 3),
        (UserDict(x=np.zeros((4, 2)), y=np.zeros(4)), 4),
        ((np.zeros((4, 2)), np.zeros(4)), 4),
        ({"text": ["a", "b"], "label": ["c", "d"], "more": []}, 2),
        ((["a", "b", "c", "d"], ["e", "f", "g", "h"]), 4),
        (({"text": ["a", "b", "c"]}, [1, 2, 3]), 3),
        ([("text", 0), ("other", 1), ("third", 2)], 3),
        ({"text": "one sample"}, None),
        (("question", "answer"), None),
        (np.array(1.0), None),
        ({}, None),
        (torch.tensor(1.0), 1),
    ],
)
def test_samples_of_a_batch_are_counted_not_its_parts(batch: object, number: int | None) -> None:
    assert num_samples(batch) == number


def test_what_is_given_again_may_count_once() -> None:
    def given(*batches: torch.Tensor, once: bool) -> str | None:
        made = Digest()
        for batch in batches:
            made.add(batch, is_made=(lambda _: False) if once else None)
        return made.take()

    first, second = torch.rand(3), torch.rand(3)
    assert given(first, second, first, once=True) == given(first, second, once=True)
    assert given(first, second, first, once=False) != given(first, second, once=False)


IMAGES, LABELS = torch.arange(30.0).reshape(6, 5), torch.tensor([1, 0, 2, 1, 2, 0])
ORDER = torch.tensor([3, 5, 0, 1, 4, 2])


def rows_of(*batches: object, alone: bool = True) -> str | None:
    rows = Rows()
    for batch in batches:
        rows.add(batch)
    return rows.take(alone=alone)


def test_samples_are_the_same_in_any_order_and_any_number_of_batches() -> None:
    whole = rows_of({"image": IMAGES, "label": LABELS, "name": None})
    assert whole is not None
    assert rows_of({"image": IMAGES[ORDER], "label": LABELS[ORDER], "name": None}) == whole
    assert rows_of(*({"image": IMAGES[p], "label": LABELS[p], "name": None} for p in ORDER.reshape(3, 2))) == whole
    longer = pad_sequence([*WORDS, *WORDS], batch_first=True)
    assert rows_of(pad_sequence(WORDS[:2], batch_first=True), pad_sequence([WORDS[2], *WORDS], batch_first=True)) == (
        rows_of(longer)
    )


@pytest.mark.parametrize(
    "other",
    [
        ((IMAGES, LABELS[ORDER]),),
        ((IMAGES[ORDER], LABELS),),
        ((IMAGES, LABELS.float()),),
        ((IMAGES + 1e-6, LABELS),),
        ((IMAGES[:5], LABELS[:5]),),
        ((IMAGES, LABELS), (IMAGES[:1], LABELS[:1])),
        ((IMAGES, LABELS, torch.tensor(0.5)),),
        ((IMAGES, LABELS, *"ab"),),
        ((LABELS, IMAGES),),
    ],
)
def test_an_input_with_another_label_is_another_sample(other: tuple[object, ...]) -> None:
    assert rows_of(*other) != rows_of((IMAGES, LABELS))


def test_labels_that_a_loss_is_given_are_those_of_the_models_input() -> None:
    def called(order: torch.Tensor, labels: torch.Tensor) -> str | None:
        result = torch.rand(6, 2, 3, requires_grad=True)
        return rows_of(((IMAGES[order],), {}), ((result.flatten(0, 1), labels[order].flatten()), {}), alone=False)

    words = torch.stack([LABELS, 1 + LABELS], 1)
    straight = torch.arange(6)
    assert called(straight, words) == called(ORDER, words) is not None
    assert called(straight, words[ORDER]) != called(straight, words)
    assert rows_of(IMAGES, alone=False) is None, "its labels were not seen"
    assert rows_of(torch.rand(6, 2, requires_grad=True), alone=False) is None
    assert rows_of() is None


def test_samples_that_came_before_are_known_however_they_come() -> None:
    fresh = Fresh()
    given = []
    rows = torch.arange(1.0, 13.0).reshape(6, 2)
    for inputs in (rows[:4], rows[2:], rows.flip(0), torch.cat([rows[:1] / 2, rows[:1] / 2])):
        fresh.add(samples(data_of(((inputs,), {}))))
        fresh.add(samples(data_of(((inputs,), {"again": True}))))
        given.append(fresh.take())
    assert given == [1.0, 0.5, 0.0, 0.5]
    assert fresh.take() is None


def test_what_models_made_is_part_of_a_batch_only_where_nothing_else_is() -> None:
    def given(*made: torch.Tensor, labels: tuple[torch.Tensor, ...] = ()) -> str | None:
        digest = Digest()
        for one in made:
            digest.add((one, *labels), is_made=partial(operator.is_, one))
        return digest.take()

    results, labels = torch.rand(2, 3), (torch.arange(3),)
    assert given(results[0]) != given(results[1])
    assert given(results[0], labels=labels) == given(results[1], labels=labels)
    weight = torch.rand(3, requires_grad=True)
    assert Given().is_made(weight * 2)
    assert not Given().is_made(weight), "an input of which the gradient is asked for"


def test_what_a_model_is_given_twice_in_a_step_counts_once() -> None:
    given, real, fake = Given(), torch.rand(4, 3), torch.rand(4, 3)
    for inputs in (real, fake, real, torch.rand(4, 3, requires_grad=True)):
        if rows := list(samples(data_of((inputs,)))):
            given.add(inputs, rows)
    parts = given.take()
    given.add(torch.cat([real, fake]), list(samples(data_of(torch.cat([real, fake])))))
    assert (parts, given.take()) == ((8, 24, 4), (8, 24, 8))
    assert given.take() is None


def test_what_a_model_has_made_is_no_sample_of_the_next_model_until_the_step_is_over() -> None:
    given, made = Given(), torch.rand(4, 2, 3)
    given.made({"features": made, "others": [torch.rand(4, 3)]})
    assert given.is_made(made) and given.is_made(made.flatten(1))
    assert not given.is_made(torch.rand(4, 3)) and not given.is_made(made.relu())
    given.take()
    assert not given.is_made(made)


@pytest.mark.parametrize(
    ("shape", "is_known"),
    [pytest.param((4, 2, 3, 50), True, id="images"), pytest.param((4, 3), False, id="few numbers")],
)
def test_samples_of_a_model_beside_real_ones_are_no_data(shape: tuple[int, ...], is_known: bool) -> None:
    given, made, real = Given(), torch.rand(shape).half(), torch.rand(shape)
    both, marks = torch.cat([real, made.float()]).flatten(1), torch.arange(8.0)
    assert len(given.not_made([both, marks])[0]) == 8
    given.made(made)
    kept = given.not_made([both, marks])
    assert [len(one) for one in kept] == ([4, 4] if is_known else [8, 8])
    assert torch.equal(kept[0][:4], real.flatten(1)) and torch.equal(kept[1][:4], marks[:4])
    assert bool(given.not_made([made.clone()])) is not is_known
    made.detach().clamp_(0.25, 0.75)
    changed = given.not_made([torch.cat([real, made.float()])])
    assert [len(one) for one in changed] == ([4] if is_known else [8]), "in place, by way of a view"
    given.made(torch.zeros(shape))
    assert given.not_made([torch.zeros(shape)]), "what is empty is made by nobody"
    given.take()
    assert len(given.not_made([both])[0]) == 8
    given.made(torch.rand(shape, device="meta"))


def test_tensors_that_came_before_are_known_one_by_one() -> None:
    digest = Digest()
    for labels, share in ((torch.tensor([1, 2]), 1.0), (torch.tensor([2, 1]), 1.0), (torch.tensor([1, 2]), 0.5)):
        digest.add((torch.rand(2, 3), labels, "text"))
        assert digest.fresh.take() == share


def test_padding_makes_no_new_sample() -> None:
    longer, shorter = (pad_sequence(words, batch_first=True) for words in (WORDS, WORDS[:2]))
    assert list(samples(data_of({"ids": shorter}))) == list(samples(data_of(longer)))[:2]


def test_labels_that_losses_ignore_are_padding() -> None:
    longer, shorter = (pad_sequence(words, batch_first=True, padding_value=-100) for words in (WORDS, WORDS[:2]))
    assert list(samples(data_of(shorter))) == list(samples(data_of(longer)))[:2]


@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_updates_by_an_optimizer_that_has_lost_its_momentum_are_counted(momentum: float) -> None:
    params = [torch.ones(2, requires_grad=True) for _ in range(2)]
    optimizer = torch.optim.SGD(params, momentum=momentum)
    lapses = Lapses()
    found = []
    for step in range(5):
        if step == 2:
            optimizer.state.clear()
        if step == 3:
            optimizer = torch.optim.SGD([*params, torch.ones(2, requires_grad=True)], momentum=momentum)
        for param in params:
            param.grad = torch.ones(2)
        lapses.update_begins(optimizer)
        optimizer.step()
        lapses.updated(optimizer)
        found.append(lapses.take()[1])
    assert found == [0, 0, bool(momentum), bool(momentum), 0]


@pytest.mark.parametrize("given", [torch.ones(3, 2, requires_grad=True), torch.tensor(1.0), torch.empty(0, 2), None])
def test_what_is_no_data_is_no_sample(given: object) -> None:
    assert not list(samples(data_of(((given,), {}))))


def test_draws_are_told_by_their_place_and_of_each_step() -> None:
    draws = Draws()
    draws.look(ELSEWHERE)
    torch.rand(1)
    draws.look(WITH_GRADIENTS)
    draws.look(WITHOUT)
    draws.look(WITH_GRADIENTS)
    assert draws.take() == (True, False, False)
    draws.look(WITH_GRADIENTS)
    torch.rand(1)
    assert draws.take() == (False, None, True)


def test_a_generator_of_the_scripts_own_draws_too() -> None:
    draws, own = Draws(), torch.Generator()
    draws.own = lambda: {0: own}
    draws.look(ELSEWHERE)  # from here on it is known
    torch.rand(1, generator=own)
    draws.look(WITH_GRADIENTS)
    draws.own = dict  # one that is gone has drawn nothing
    assert draws.take() == (True, None, False)


def test_backward_passes_since_gradients_were_cleared_are_counted() -> None:
    params = [torch.zeros(2, requires_grad=True) for _ in range(2)]
    both = [torch.optim.SGD([param]) for param in params]
    lapses = Lapses()
    found = []
    for clear in (False, True, False, True):
        for optimizer, param in zip(both, params, strict=True):
            if clear or param is params[0]:
                optimizer.zero_grad(set_to_none=param is params[0])
            for _ in range(2):  # accumulated: the second pass finds what the first one left
                lapses.backward_begins(both)
                (param.sum()).backward()  # type: ignore[no-untyped-call]
                lapses.backward_ended(both)
            lapses.updated(optimizer)
        found.append(lapses.take()[0])
    assert found == [4, 4, 6, 4]


def test_fractions_beside_the_first_tensor_are_part_of_a_sample_and_labels_and_states_are_not() -> None:
    ids, numbers, labels = torch.arange(4)[:, None], torch.rand(4, 3), torch.arange(4)
    assert [id(one) for one in data_of(((ids, numbers), {"labels": labels}))] == [id(ids), id(numbers)]
    assert len(data_of((ids, torch.rand(1, 4, 3), torch.rand(4, requires_grad=True)))) == 1
    assert not set(samples([ids, numbers])) & set(samples([ids, numbers + 1]))
    given, state = Given(), torch.rand(4, 5)
    given.made((numbers, state))
    given.take()
    assert given.is_state(state.detach()) and not given.is_state(torch.rand(4, 5))
    given.take()
    assert not given.is_state(state)


def test_times_in_bfloat16_do_not_tell_samples_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    times, fresh = torch.rand(40, 32, generator=generator), Fresh()
    for row in times.bfloat16():
        fresh.add(samples([row]))
        share = fresh.take()
    assert share is not None and share < 0.5, "by rounding they come again"
    assert not tells_apart(times[0].bfloat16()) and not tells_apart(times[0].half()[:, None])
    assert tells_apart(times[0]) and tells_apart(times.bfloat16()) and tells_apart(torch.arange(3, dtype=torch.int16))
