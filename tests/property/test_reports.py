"""Any study that the types allow can be shown, however little sense it makes."""

import hypothesis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hotlap.record import Excerpt, Phase, Run, Status, Study, decode, encode
from hotlap.report import html, lanes, markdown, terminal
from tests.property.test_record import values

numbers = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -1.0, 1e308, -1e308, 5e-324])


@given(study=values(Study))
# A study is large: to shrink a failing one would take minutes, and its fields are printed anyway.
@settings(
    max_examples=30,
    suppress_health_check=list(HealthCheck),
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.reuse, hypothesis.Phase.generate],
)
def test_any_study_is_shown_and_comes_back_as_it_was(study: Study) -> None:
    """Both of the same studies: to draw one takes thirty times as long as to show it."""
    assert decode(encode(study), Study) == study
    assert terminal.render(study)
    assert html.render(study)
    assert markdown.render(study)


@given(
    step_s=st.lists(numbers, min_size=1, max_size=6).map(tuple),
    phase_s=st.dictionaries(st.sampled_from(Phase), st.none() | st.lists(numbers, max_size=8).map(tuple)),
    excerpt=values(Excerpt),
)
@example(step_s=(0.0,), phase_s={}, excerpt=Excerpt(first=0, ends_s=(), spans=()))
@settings(max_examples=100)
def test_any_number_is_drawn_or_left_out(
    step_s: tuple[float, ...],
    phase_s: dict[Phase, tuple[float, ...] | None],
    excerpt: Excerpt,
) -> None:
    run = Run(status=Status.COMPLETE, step_s=step_s, phase_s=phase_s, excerpt=excerpt)
    picture = lanes.timeline(run, run)
    blocks = [block for lane in picture.before.lanes.values() for block in lane] if picture else []
    assert all(0 <= block.x <= 100 and 0 <= block.width <= 100 for block in blocks)
