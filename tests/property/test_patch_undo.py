"""Undoing a patch is the identity, whatever was set on what, in which order, and however often."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.levers import Patch


def world() -> list[Any]:
    """Everything a lever may set attributes of: a module, classes that inherit, instances that shadow them."""

    class Base:
        number = 1

        @staticmethod
        def still() -> str:
            return "still"

        @classmethod
        def of_class(cls) -> str:
            return cls.__name__

        @property
        def seen(self) -> int:
            return 5

    class Child(Base):
        number = 2

    shadowing = Child()
    shadowing.__dict__["number"] = 3
    module = ModuleType("settings")
    vars(module)["number"] = 4
    return [module, Base, Child, Base(), shadowing]


NAMES = ("number", "still", "of_class", "fresh", "another")

# (owner, attribute, value)
sets = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(NAMES), st.integers() | st.none() | st.just(print)), max_size=25
)


def seen(owners: list[Any]) -> list[dict[str, Any]]:
    """The attributes of all, as they are held: identity counts, not only equality."""
    return [{name: (id(value), value) for name, value in vars(owner).items()} for owner in owners]


@given(changes=sets)
def test_undo_is_the_identity(changes: list[tuple[int, str, Any]]) -> None:
    owners = world()
    before = seen(owners)
    patch = Patch()
    for owner, name, value in changes:
        patch.set(owners[owner], name, value)
        assert vars(owners[owner])[name] is value
    patch.undo()
    assert seen(owners) == before
    assert owners[1].still() == "still"
    assert owners[2].of_class() == "Child"


@given(first=sets, second=sets)
def test_patches_undone_in_reverse_leave_nothing(
    first: list[tuple[int, str, Any]], second: list[tuple[int, str, Any]]
) -> None:
    owners = world()
    before = seen(owners)
    inner, outer = Patch(), Patch()
    for patch, changes in ((inner, first), (outer, second)):
        for owner, name, value in changes:
            patch.set(owners[owner], name, value)
    between = Patch()
    outer.undo()
    between.undo()
    inner.undo()
    inner.undo()
    assert seen(owners) == before


@given(kinds=st.lists(st.booleans(), max_size=20))
def test_actions_and_attributes_are_undone_last_first(kinds: list[bool]) -> None:
    class Owner:
        step = 0

    patch = Patch()
    log: list[tuple[int, int]] = []
    for number, is_action in enumerate(kinds, start=1):
        if is_action:
            patch.on_undo(noting(log, number, lambda: Owner.step))
        else:
            patch.set(Owner, "step", number)
    patch.undo()
    assert [number for number, _ in log] == [n for n, is_action in reversed(list(enumerate(kinds, 1))) if is_action]
    # Each action sees the attribute as it was when the action was put down.
    for number, step in log:
        assert step == max((n for n, is_action in enumerate(kinds, 1) if not is_action and n < number), default=0)


def noting(log: list[tuple[int, int]], number: int, look: Callable[[], int]) -> Callable[[], None]:
    return lambda: log.append((number, look()))


def test_an_action_that_fails_does_not_keep_the_rest_from_being_undone() -> None:
    class Owner:
        value = "before"

    def fails() -> None:
        raise RuntimeError("broken")

    patch = Patch()
    patch.set(Owner, "value", "after")
    patch.on_undo(fails)
    with pytest.raises(RuntimeError, match="broken"):
        patch.undo()
    patch.undo()
    assert Owner.value == "before"


def test_every_optimizer_is_told_to_whoever_asked() -> None:
    patch, told = Patch(), list[object]()
    patch.on_optimizer += [told.append, told.append]
    optimizer = object()
    patch.optimizer_made(optimizer)
    assert told == [optimizer, optimizer]


def test_what_the_script_has_set_meanwhile_stays() -> None:
    module, _, child, *_ = world()
    patch = Patch()
    patch.set(module, "number", 40)
    patch.set(module, "fresh", 41)
    patch.set(child, "still", print)
    module.number = 400
    del module.fresh
    patch.undo()
    assert module.number == 400
    assert not hasattr(module, "fresh")
    assert child.still() == "still"
