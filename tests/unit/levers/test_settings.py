"""What the levers of one setting or none decide: candidates, refusals, bounds, edits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.levers import Patch, by_name
from hotlap.levers.bf16_autocast import Bf16Autocast
from hotlap.levers.fused_optimizer import FusedOptimizer
from hotlap.levers.malloc import Malloc
from hotlap.levers.threads import Threads
from hotlap.record import CpuUse, Neighbour, Phase, Run, SwitchFacts
from hotlap.source import AddArgument, InsertAfterImports, WrapStatement, top_of
from tests.conformance.recorded import run_of as recorded
from tests.sample_runs import SCRIPT, SHA, machine, optimizer, run_with, site
from tests.samples import KEPT


def run_of_optimizer(**changes: object) -> Run:
    facts = replace(optimizer(), **changes)  # type: ignore[arg-type]
    made = replace(site("torch.optim.Adam", 27), detail={"optimizer": 0})
    return replace(run_with(), optimizers=(facts,), call_sites=(made,))


# threads


@pytest.mark.parametrize(
    ("usable", "now", "counts"),
    [(2.0, 2, [1]), (8.0, 8, [1, 2, 4]), (8.0, 3, [1, 2, 4, 8]), (0.5, 1, []), (0.5, 64, [1]), (1.0, None, [1])],
)
def test_threads_tries_one_a_quarter_half_and_all_but_what_is_set(
    usable: float, now: int | None, counts: list[int]
) -> None:
    run = replace(run_with(), num_threads=now)
    found = Threads.candidates(run, replace(machine(), usable_cores=usable))
    assert [lever.count for lever in found] == counts


def test_threads_may_save_all_arithmetic_where_others_use_the_cores_and_fewer_would_do() -> None:
    phases = {Phase.FORWARD: 0.004, Phase.BACKWARD: 0.004, Phase.OTHER: 0.002}
    alone = replace(run_with(phases=phases), num_threads=2)
    crowded = replace(alone, cpu=CpuUse(usable_cores=4.0, main=1.0, others=0.0, runnable=2.0, throttled=0.0))
    assert Threads(count=1).saves_at_most_s(alone, ()) == pytest.approx(0.004)
    assert Threads(count=1).saves_at_most_s(crowded, ()) == pytest.approx(0.008)
    assert Threads(count=4).saves_at_most_s(crowded, ()) == pytest.approx(0.004)


def test_more_threads_are_not_tried_where_others_use_the_cores() -> None:
    use = CpuUse(usable_cores=4.0, main=1.0, others=0.0, runnable=1.0)
    alone = replace(run_with(), num_threads=1, cpu=use)
    beside = Neighbour(pid=7, name="main.py", threads=3.0, ours=False)
    busy = replace(alone, cpu=replace(use, main=0.3))
    shared = replace(alone, cpu=replace(use, neighbours=(beside,)))
    assert Threads(count=2).refuses(alone, machine()) is None
    for run in (busy, shared):
        assert str(Threads(count=2).refuses(run, machine())).startswith("Other programs use the cores")
        assert Threads(count=1).refuses(replace(run, num_threads=2), machine()) is None


def test_threads_is_one_line_behind_the_imports() -> None:
    (edit,) = Threads(count=3).edits(run_with())
    assert edit == InsertAfterImports(site=top_of(SCRIPT, SHA), code="torch.set_num_threads(3)", imports="import torch")


def test_threads_sets_and_restores_torchs_own_number() -> None:
    before, patch = torch.get_num_threads(), Patch()
    Threads(count=before + 1).install(patch)
    assert torch.get_num_threads() == before + 1
    patch.undo()
    assert torch.get_num_threads() == before


# fused-optimizer


def test_fused_refuses_a_parameter_of_which_it_would_update_a_part() -> None:
    run = run_of_optimizer(all_dense=False, not_dense="shape (4, 8), strides (16, 1)")
    reason = FusedOptimizer().rejects(run, machine())
    assert reason is not None
    assert "shape (4, 8), strides (16, 1)" in reason


@pytest.mark.parametrize("chosen", [{"fused": True}, {"fused": False}, {"foreach": True}, {"has_fused": False}])
def test_fused_respects_what_the_script_chose(chosen: dict[str, bool]) -> None:
    run = run_of_optimizer(**chosen)
    assert FusedOptimizer().rejects(run, machine()) is not None
    assert FusedOptimizer().edits(run) == ()


def test_fused_needs_a_line_to_change() -> None:
    run = replace(run_of_optimizer(), call_sites=())
    assert FusedOptimizer().rejects(run, machine()) is not None


def test_fused_is_no_argument_of_a_function_that_makes_the_optimizer() -> None:
    (site,) = (run := run_of_optimizer()).call_sites
    made = replace(site, detail={**site.detail, "through": "timm.optim.factory"})
    assert FusedOptimizer().edits(replace(run, call_sites=(made,))) == ()


def test_fused_is_an_argument_at_each_construction() -> None:
    run = run_of_optimizer()
    assert FusedOptimizer().rejects(run, machine()) is None
    assert FusedOptimizer().edits(run) == (AddArgument(site=run.call_sites[0], keyword="fused", value="True"),)


def run_of_two(path: Path, *, first: str) -> Run:
    """Two optimizers, the first one made by this call in line 4."""
    path.write_text(
        f"from torch.optim import Adam\nseen = {{'lr': 0.1}}\ngiven = load()\none = {first}\ntwo = Adam(b)\n"
    )
    run = recorded(path)
    made = tuple(replace(site, detail={"optimizer": n}) for n, site in enumerate(run.call_sites))
    return replace(run, call_sites=made, optimizers=tuple(replace(optimizer(), id=n) for n in range(2)))


def test_fused_is_not_tried_on_all_optimizers_where_it_could_be_written_for_some(tmp_path: Path) -> None:
    run = run_of_two(tmp_path / "train.py", first="Adam(a, **given)")
    reason = FusedOptimizer().rejects(run, machine()) or ""
    assert reason.endswith("train.py:4 cannot be edited: fused may be in a ** argument of the call; write it out.")
    plain = run_of_two(tmp_path / "train.py", first="Adam(a)")
    by_a_library = replace(plain.call_sites[0], detail={"optimizer": 0, "through": "timm.optim.factory"})
    run = replace(plain, call_sites=(by_a_library, plain.call_sites[1]))
    assert FusedOptimizer().rejects(run, machine()) == FusedOptimizer.no_line
    assert FusedOptimizer().rejects(plain, machine()) is None


def test_fused_is_written_beside_arguments_in_a_mapping_that_can_be_seen(tmp_path: Path) -> None:
    run = run_of_two(tmp_path / "train.py", first="Adam(a, **seen)")
    assert [edit.site.line for edit in FusedOptimizer().edits(run)] == [4, 5]


def test_fused_leaves_groups_alone_that_have_a_choice_of_their_own() -> None:
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    groups: list[dict[str, Any]] = [{"params": first.parameters()}, {"params": second.parameters(), "foreach": True}]
    made = torch.optim.Adam(groups)
    patch = Patch()
    FusedOptimizer().install(patch)
    patch.optimizer_made(made)
    assert [group["fused"] for group in made.param_groups] == [True, None]
    patch.undo()
    assert [group["fused"] for group in made.param_groups] == [None, None]


def test_fused_makes_the_same_update_up_to_rounding() -> None:
    def weights(*, fused: bool) -> torch.Tensor:
        torch.manual_seed(3)
        model = torch.nn.Linear(16, 4)
        made, patch = torch.optim.Adam(model.parameters(), lr=0.1), Patch()
        if fused:
            FusedOptimizer().install(patch)
            patch.optimizer_made(made)
        for _ in range(5):
            made.zero_grad()
            model(torch.ones(8, 16)).square().sum().backward()
            made.step()
        return model.weight.detach()

    assert torch.allclose(weights(fused=True), weights(fused=False), rtol=1e-5, atol=1e-6)


# bf16-autocast


def run_with_model(*, returns: str = "Tensor") -> Run:
    call = replace(site("forward", 30), detail={"parameters": True, "returns": returns})
    facts = replace(optimizer(), dtypes=("float32",))
    return replace(run_with(), optimizers=(facts,), call_sites=(call,))


def test_bf16_wraps_the_call_of_the_model() -> None:
    run = run_with_model()
    assert Bf16Autocast().rejects(run, machine()) is None
    (edit,) = Bf16Autocast().edits(run)
    assert isinstance(edit, WrapStatement)
    assert (edit.header, edit.suffix) == ('with torch.autocast("cpu", dtype=torch.bfloat16)', ".float()")


def test_bf16_needs_a_chip_that_has_it() -> None:
    reason = Bf16Autocast().rejects(run_with_model(), replace(machine(), cpu_flags=("avx2", "avx512f")))
    assert reason is not None
    assert "no bfloat16 instructions" in reason


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ("Tesla T4", "has tensor cores for float16 alone, which needs a loss scale"),
        ("TITAN V", "has tensor cores for float16 alone, which needs a loss scale"),
        ("NVIDIA GeForce GTX 1080 Ti", "has no bfloat16 instructions"),
    ],
)
def test_bf16_says_what_cards_before_ampere_have(card: str, words: str) -> None:
    assert words in str(Bf16Autocast().rejects(replace(run_with_model(), device=card), machine()))


def test_bf16_on_a_gpu_does_not_ask_for_the_processors_flags() -> None:
    run = replace(run_with_model(), device="NVIDIA H200")
    assert Bf16Autocast().rejects(run, replace(machine(), cpu_flags=())) is None
    (edit,) = Bf16Autocast().edits(run)
    assert isinstance(edit, WrapStatement)
    assert '"cuda"' in edit.header


@pytest.mark.parametrize("returns", ["dict", "tuple", "ModelOutput"])
def test_bf16_refuses_what_it_cannot_cast_back_in_source(returns: str) -> None:
    run = run_with_model(returns=returns)
    assert Bf16Autocast().edits(run) == ()
    assert Bf16Autocast().rejects(run, machine()) is not None


def test_bf16_computes_in_bfloat16_and_hands_on_float32() -> None:
    seen: list[torch.dtype] = []

    class Watching(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.inner(x)
            seen.append(y.dtype)
            return y

    model, patch = Watching(), Patch()
    Bf16Autocast().install(patch)
    try:
        out = model(torch.ones(2, 4))
        with torch.no_grad():
            model(torch.ones(2, 4))
    finally:
        patch.undo()
    model(torch.ones(2, 4))
    assert out.dtype == torch.float32
    assert seen == [torch.bfloat16, torch.float32, torch.float32], "training only, and only while installed"


# malloc


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"libc": ""}, "another libc"),
        ({"libc": "musl"}, "this is musl"),
        ({"libc": "glibc 2.25"}, "2.26 or newer"),
    ],
)
def test_malloc_says_what_the_system_lacks(changes: dict[str, str | None], part: str) -> None:
    reason = Malloc().rejects(run_with(), replace(machine(), **changes))  # type: ignore[arg-type]
    assert reason is not None
    assert part in reason
    preloaded = replace(run_with(), switches=SwitchFacts(environment={"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}))
    assert "Another malloc" in (Malloc().rejects(preloaded, machine()) or "")


def test_malloc_adds_its_tunables_behind_those_that_are_set_and_leaves_the_users_own() -> None:
    huge = f"{KEPT}:glibc.malloc.hugetlb=1"
    assert Malloc().environment({}) == {"GLIBC_TUNABLES": KEPT}
    assert Malloc(huge_pages=True).environment({"GLIBC_TUNABLES": "a=1"}) == {"GLIBC_TUNABLES": f"a=1:{huge}"}
    assert Malloc().environment({"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=2"}) == {}
    assert Malloc(huge_pages=True).environment({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"}) == {}


@pytest.mark.parametrize(
    ("libc", "huge_pages", "number"),
    [("glibc 2.36", "madvise", 2), ("glibc 2.31", "madvise", 1), ("glibc 2.36", "always", 1), ("musl", None, 1)],
)
def test_malloc_is_tried_in_huge_pages_where_the_system_leaves_the_choice(
    libc: str, huge_pages: str | None, number: int
) -> None:
    here = replace(machine(), libc=libc, huge_pages=huge_pages)
    assert [one.huge_pages for one in Malloc.candidates(run_with(), here)] == [False, True][:number]


def test_malloc_writes_nothing_into_the_script() -> None:
    assert Malloc().by_environment
    assert not Malloc().edits(run_with())


def test_malloc_wins_what_page_faults_take_and_nothing_where_a_device_trains() -> None:
    few, many, most = (CpuUse(usable_cores=2.0, main=1.0, others=0.0, page_faults=n * 1e5) for n in (0, 1, 9))
    for cpu, share in ((few, 0.0), (many, 0.2), (most, 1.0)):
        run = replace(run_with(), cpu=replace(cpu, page_fault_s=1e-6))
        assert Malloc().saves_at_most_s(run, ()) == pytest.approx(share * run.median_step_s())
        assert Malloc().saves_at_most_s(replace(run, device="NVIDIA H200"), ()) == 0
    assert Malloc().saves_at_most_s(run_with(), ()) == 0, "not known"
    shared = CpuUse(usable_cores=2.0, main=2.0, others=0.0, page_faults=1e5, page_fault_s=1e-6)
    assert replace(run_with(), cpu=shared).page_faults_share == pytest.approx(0.05), "two threads have them at once"


def test_levers_are_found_by_name() -> None:
    assert by_name("threads") is Threads
