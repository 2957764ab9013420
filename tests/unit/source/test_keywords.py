"""Which mappings behind `**` can be seen, and which may be another one than they seem."""

import ast

import pytest

from hotlap.source import Script, keywords, why_unseen


def given(text: str) -> dict[str, str] | None:
    """What the last call of `f` in a text is given by name, as it is written."""
    script = Script(path="train.py", sha256="", text=text, tree=ast.parse(text))
    *_, call = [call for call in script.all_calls if ast.unparse(call.func) == "f"]
    found = keywords(script, call)
    return None if found is None else {name: script.code(value) for name, value in found.items()}


@pytest.mark.parametrize(
    "text",
    [
        "f(a=1)",
        "f(**{'a': 1})",
        "f(**dict(a=1))",
        "kw = {'a': 1}\nf(**kw)",
        "kw: dict = dict(a=1)\nprint(kw['a'])\nf(**kw)",
        "kw = {'a': 1}\ndef g():\n    f(**kw)",
        "kw = {'a': 1}\ng(**kw)\nf(**kw)",
        "if x:\n    kw = {'a': 1}\n    f(**kw)",
    ],
)
def test_a_literal_and_a_name_for_one_are_seen(text: str) -> None:
    assert given(text) == {"a": "1"}


@pytest.mark.parametrize(
    "text",
    [
        "f(**kw)",
        "f(**make())",
        "f(**vars(args))",
        "f(**{name: 1})",
        "f(**{1: 1})",
        "f(**dict([('a', 1)]))",
        "def dict(**kw): ...\nf(**dict(a=1))",
        "def g(kw):\n    f(**kw)",
        "def g(**kw):\n    f(**kw)",
        "f(**{'a': 2, **dict(a=1)})",
        "kw = {'a': 2}\ndef g():\n    kw = {'a': 1}\n    f(**kw)",
        "kw = {'a': 1}\nkw.update(b=2)\nf(**kw)",
        "kw = {'a': 1}\nkw['b'] = 2\nf(**kw)",
        "kw = {'a': 1}\ndel kw['a']\nf(**kw)",
        "kw = {'a': 1}\nkw |= {'b': 2}\nf(**kw)",
        "kw = {'a': 1}\nadd_to(kw)\nf(**kw)",
        "kw = {'a': 1}\nother = kw\nf(**kw)",
        "kw = {'a': 1}\nif x:\n    kw = {'b': 1}\nf(**kw)",
        "kw = other = {'a': 1}\nf(**kw)",
        "kw, other = {'a': 1}, 2\nf(**kw)",
        "kw = {'a': 1}\nfor kw in others: ...\nf(**kw)",
        "kw = {'a': 1}\nfrom settings import kw\nf(**kw)",
        "kw = {'a': 1}\nfrom settings import *\nf(**kw)",
        "kw = {'a': 1}\ndef g():\n    global kw\n    kw = {'b': 1}\ng()\nf(**kw)",
        "def g():\n    while x:\n        f(**kw)\n        kw = {'a': 1}",
        "def g():\n    f(**kw)\n    kw = {**kw}",
    ],
)
def test_what_may_be_another_mapping_is_not_seen(text: str) -> None:
    assert given(text) is None


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("f(a=1, **kw)", None),
        ("f(**kw)", "a may be in a ** argument of the call; write it out"),
        ("f(**{'a': 1})", "a is in a ** argument of the call; write it out"),
        ("f(**{'b': 1})", None),
    ],
)
def test_what_may_be_or_is_in_a_mapping_is_left_to_the_user(call: str, reason: str | None) -> None:
    script = Script(path="train.py", sha256="", text=call, tree=ast.parse(call))
    assert why_unseen(script, script.all_calls[0], "a") == reason
