"""What the tests of hotlap.small share."""

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from hotlap.small.native import core

needs_core = pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")
