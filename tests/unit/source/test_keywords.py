"""Which keywords may be in a mapping behind `**`."""

import ast

import pytest

from hotlap.source import why_unseen


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("f(a=1, **kw)", None),
        ("f(**kw)", "a may be in a ** argument of the call; write it out"),
        ("f(**{'a': 1})", "a is in a ** argument of the call; write it out"),
        ("f(**{'b': 1})", None),
        ("f(**make())", "a may be in a ** argument of the call; write it out"),
        ("f(**dict(b=1))", "a may be in a ** argument of the call; write it out"),
        ("f(**{name: 1})", "a may be in a ** argument of the call; write it out"),
        ("f(**{'b': 2, **kw})", "a may be in a ** argument of the call; write it out"),
        ("f(**{'a': 1}, **kw)", "a may be in a ** argument of the call; write it out"),
    ],
)
def test_what_may_be_or_is_in_a_mapping_is_left_to_the_user(call: str, reason: str | None) -> None:
    parsed = ast.parse(call, mode="eval").body
    assert isinstance(parsed, ast.Call)
    assert why_unseen(parsed, "a") == reason
