"""Where the native core is not there, or another one was asked for: it is said, and the work is done in torch."""

import os
import subprocess
import sys

import pytest

from hotlap import native

TRAINS = """
import sys
from hotlap import native
for variant in native.VARIANTS:
    sys.modules[f"hotlap._core_{variant}"] = None  # what an install without a compiler leaves: nothing to import
import torch
from torch import nn
from hotlap.small import native_steps
from hotlap.small.script_steps import known_steps
native_steps()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
x, y, losses = torch.randn(16, 4), torch.randn(16, 2), []
for _ in range(20):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]
print(known_steps().notes[0])
"""


def said_by(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.processes
def test_an_install_without_a_compiler_trains_in_torch_and_says_what_to_do() -> None:
    said = said_by(TRAINS)
    assert "installed without its native core" in said
    assert "no C++ compiler was found" in said
    assert "done with torch" in said
    assert said.endswith("Install a C++20 compiler, then hotlap again.")


def test_it_can_be_turned_off() -> None:
    assert "HOTLAP_NATIVE=off" in said_by("from hotlap.native import core; print(core().why_not)", HOTLAP_NATIVE="off")


@pytest.mark.skipif(native.core().module is None, reason=f"no native core: {native.core().why_not}")
@pytest.mark.processes
def test_another_variant_can_be_asked_for_by_name() -> None:
    ask = "from hotlap.native import core; print(core().variant, core().why_not)"
    other = next(variant for variant in reversed(native.VARIANTS) if native.load(variant) is not None)
    assert said_by(ask, HOTLAP_NATIVE=other) == other
    assert "HOTLAP_NATIVE=z80 names no variant" in said_by(ask, HOTLAP_NATIVE="z80")


@pytest.mark.skipif(native.core().variant not in ("avx2", "avx512"), reason="no variant here takes more than any chip")
@pytest.mark.processes
def test_a_chip_or_a_torch_that_is_too_old_is_left_to_torch_and_said() -> None:
    old_torch = "import torch; del torch.Tensor.__dlpack_c_exchange_api__; "
    ask = "from hotlap.native import core, extension as e; print(bool(e().module), bool(core().module), core().why_not)"
    assert said_by(ask, ATEN_CPU_CAPABILITY="default").startswith("False False This processor has no AVX2")
    assert said_by(old_torch + ask).startswith("True False This torch (before 2.10)")
