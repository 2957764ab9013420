"""Record -> JSON -> the same record; what is damaged or newer is refused with a sentence and nothing else."""

import dataclasses
import json
import math
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotlap.errors import RecordError
from hotlap.record import SCHEMA, Number, Plan, Run, Study, as_float, as_number, decode, encode
from tests.samples import study_full

# JSON can spell these, and reads them back as they were. Lone surrogates (a file name that is not UTF-8) it cannot.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
floats = st.floats(allow_nan=False, allow_infinity=False)
integers = st.integers(-(2**63), 2**64 - 1)

_PLAIN: Mapping[Any, st.SearchStrategy[Any]] = {
    str: texts,
    bool: st.booleans(),
    int: integers,
    float: floats,
    type(None): st.none(),
}


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value that the type hint allows."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of(*(values(arg) for arg in args))
    if origin is tuple:
        any_length = args[-1] is Ellipsis
        return st.lists(values(args[0]), max_size=2).map(tuple) if any_length else st.tuples(*map(values, args))
    if origin is Mapping:
        return st.dictionaries(values(args[0]), values(args[1]), max_size=2)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    assert isinstance(hint, type) and dataclasses.is_dataclass(hint), hint
    fields = {name: st.deferred(lambda part=part: values(part)) for name, part in get_type_hints(hint).items()}  # type: ignore[misc]
    # Written by this hotlap; other versions have tests of their own.
    return st.builds(hint, **{**fields, **({"schema": st.just(SCHEMA)} if "schema" in fields else {})})


arbitrary = settings(max_examples=20, suppress_health_check=list(HealthCheck))


@given(run=values(Run))
@arbitrary
def test_any_run_comes_back_as_it_was(run: Run) -> None:
    assert decode(encode(run), Run) == run


@given(plan=values(Plan))
@arbitrary
def test_any_plan_comes_back_as_it_was(plan: Plan) -> None:
    assert decode(encode(plan), Plan) == plan


@given(number=st.floats())
def test_a_float_that_json_cannot_spell_survives_as_a_number(number: float) -> None:
    held = msgspec.convert(msgspec.json.decode(encode(as_number(number))), Number)
    back = as_float(held)
    assert back == number or (back is not None and math.isnan(back) and math.isnan(number))


FULL = encode(study_full())


def refusal(data: bytes, kind: type[Any] = Study) -> str | None:
    """The sentence, or None if `data` is taken."""
    try:
        decode(data, kind, name="study.json")
    except RecordError as error:
        return str(error)
    return None


def is_clear(sentence: str) -> bool:
    """One line that names the file, says what is wrong with it, and what to do."""
    return sentence.startswith("study.json ") and sentence.endswith(".") and sentence.isprintable()


@given(end=st.integers(0, len(FULL) - 1))
@settings(max_examples=60)
def test_a_file_that_was_cut_off_is_refused(end: int) -> None:
    sentence = refusal(FULL[:end])
    assert sentence is not None
    assert is_clear(sentence)


@given(place=st.integers(0, len(FULL) - 1), value=st.integers(0, 255))
@settings(max_examples=200)
def test_a_flipped_byte_is_refused_or_read_never_a_crash(place: int, value: int) -> None:
    sentence = refusal(FULL[:place] + bytes([value]) + FULL[place + 1 :])
    assert sentence is None or is_clear(sentence)


@given(data=st.binary(max_size=40))
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    sentence = refusal(data)
    assert sentence is not None
    assert is_clear(sentence)


json_values = st.recursive(
    st.none() | st.booleans() | integers | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(value=json_values)
def test_json_that_is_no_record_is_refused(value: Any) -> None:
    sentence = refusal(json.dumps(value).encode())
    assert sentence is not None
    assert is_clear(sentence)


@given(name=st.sampled_from([field.name for field in dataclasses.fields(Study)]), value=json_values)
@settings(max_examples=200)
def test_any_value_in_the_place_of_a_field_is_read_or_refused(name: str, value: Any) -> None:
    sentence = refusal(json.dumps({**json.loads(FULL), name: value}).encode())
    assert sentence is None or is_clear(sentence)


@given(version=st.integers(SCHEMA + 1, 2**62))
def test_what_a_newer_hotlap_wrote_is_refused_by_its_version(version: int) -> None:
    sentence = refusal(json.dumps({**json.loads(FULL), "schema": version, "new_field": {}}).encode())
    assert sentence is not None
    assert is_clear(sentence)
    assert f"record version {version}" in sentence


@pytest.mark.parametrize("version", [0, -1, "1", None, 1.5, [], {}])
def test_a_version_that_is_none_is_refused(version: Any) -> None:
    sentence = refusal(json.dumps({**json.loads(FULL), "schema": version}).encode())
    assert sentence is not None
    assert is_clear(sentence)


def test_brackets_without_end_are_refused() -> None:
    for data in (b"[" * 100_000, b'{"trials":' * 50_000, b'{"schema": 1' + b"0" * 5000 + b"}"):
        sentence = refusal(data)
        assert sentence is not None
        assert is_clear(sentence)


def test_a_record_without_the_fields_added_since_is_read() -> None:
    oldest = {key: json.loads(FULL)[key] for key in ("command", "cwd", "created", "key")}
    study = decode(json.dumps(oldest).encode(), Study)
    assert study.schema == SCHEMA
    assert study.trials == ()


def test_a_file_name_that_is_not_utf8_can_be_recorded() -> None:
    # As Python hands over such names from the command line and the disk.
    study = dataclasses.replace(study_full(), command=(b"\xe9t\xe9.py".decode("utf-8", "surrogateescape"),))
    assert decode(encode(study), Study).command == ("\\udce9t\\udce9.py",)


def test_keys_that_nobody_knows_are_passed_over() -> None:
    assert decode(json.dumps({**json.loads(FULL), "comment": "mine"}).encode(), Study) == study_full()
