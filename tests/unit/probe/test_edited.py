"""Which edited files a process has run, from what it has loaded."""

from hashlib import sha256

import pytest

from hotlap.probe.edited import unreached

EDITED = {"/x/train.py": "edited = 1\n", "/x/model.py": "edited = 2\n"}
DIGESTS = {path: sha256(text.encode()).hexdigest() for path, text in EDITED.items()}


@pytest.mark.parametrize(
    ("loaded", "not_reached"),
    [
        (DIGESTS, []),
        ({**DIGESTS, "/x/model.py": "that of another text"}, ["/x/model.py"]),
        ({"/x/train.py": DIGESTS["/x/train.py"], "/copy/model.py": "of a copy"}, []),
        ({"/copy/train.py": DIGESTS["/x/train.py"], "/copy/model.py": "of a copy"}, ["/x/train.py", "/x/model.py"]),
        ({}, ["/x/train.py", "/x/model.py"]),
    ],
)  # fmt: skip
def test_another_text_of_a_file_is_told_and_one_that_is_not_loaded_if_none_is(
    loaded: dict[str, str], not_reached: list[str]
) -> None:
    assert list(unreached(EDITED, loaded)) == not_reached


def test_a_process_without_edits_has_missed_none() -> None:
    assert unreached({}, DIGESTS) == ()
