"""What each rule says, word by word, and where its threshold lies."""

import re
from dataclasses import replace

import pytest

from hotlap import rules
from hotlap.record import (
    CallSite,
    CpuUse,
    Finding,
    HotLine,
    InputPart,
    LoaderFacts,
    Neighbour,
    Operator,
    OperatorWindow,
    Phase,
    PhaseCalls,
    Run,
    ShapeFacts,
    Sighting,
    SightingKind,
    SwitchFacts,
    WhatIf,
)
from hotlap.rules import (
    change,
    compute_bound,
    debug_left_on,
    double_precision,
    epoch_gap,
    frequent_validation,
    host_bound,
    input_bound,
    launch_bound,
    memory_bound,
    memory_growth,
    optimizer_bound,
    shape_churn,
    sync_bound,
    thread_oversubscription,
    thread_starvation,
    too_small_for_gpu,
    wasted_forward,
)
from hotlap.tune.diagnosis import ceilings
from tests.rule_runs import calls, device_window, firing, healthy, left_off, memory, run_of_shares, sighting, table
from tests.sample_runs import SCRIPT, loader, machine, optimizer, run_with


def run_of(**phases: float) -> Run:
    return run_with(phases={Phase(name): seconds for name, seconds in phases.items()})


def said(code: str) -> str:
    finding = rules.ALL[code](firing(code), None)
    assert finding is not None
    return finding.evidence


def waiting(facts: LoaderFacts) -> Run:
    return replace(run_with(step_s=0.100, input_s=0.040), loaders=(facts,))


def test_input_bound_says_how_long_a_step_waits_and_who_makes_the_batch() -> None:
    finding = input_bound.check(waiting(loader()))
    assert finding is not None
    assert finding.cost_s == pytest.approx(0.040)
    assert finding.evidence == (
        "Each step waits 40.0 ms (40% of it) for its batch, made by the training process itself."
    )
    finding = input_bound.check(waiting(replace(loader(), num_workers=4)))
    assert finding is not None
    assert finding.evidence == "Each step waits 40.0 ms (40% of it) for its batch, made by 4 workers."


def test_input_bound_names_the_largest_part() -> None:
    run = replace(waiting(loader()), input_s={InputPart.ITEMS: 0.004, InputPart.TRANSFORMS: 0.032})
    finding = input_bound.check(run)
    assert finding is not None
    assert finding.evidence.endswith("; 80% of that is the data set's transforms.")


def test_input_bound_names_the_line_of_the_scripts_that_makes_the_batch() -> None:
    loop = in_line(Phase.INPUT, inside=False, step_s=0.040)
    assert "in line" not in evidence_of(replace(waiting(loader()), hot_lines=(loop,)))
    own = replace(loop, line=7, function="collate", text="parse(row)", inside=True, step_s=0.030)
    told = evidence_of(replace(waiting(loader()), hot_lines=(loop, own)))
    assert told.endswith("; 30.0 ms of that in line 7 of digits.py, collate: parse(row).")


def test_input_bound_knows_that_no_worker_and_no_cache_draws_indices() -> None:
    run = replace(waiting(loader()), input_s={InputPart.INDICES: 0.030})
    finding = input_bound.check(run)
    assert finding is not None and finding.try_levers == ("batched-fetch",)
    finding = input_bound.check(replace(run, loaders=(replace(loader(), num_workers=2),)))
    assert finding is not None and finding.try_levers == ()


def test_input_bound_knows_that_no_lever_makes_a_sampler_of_the_scripts_faster() -> None:
    run = replace(waiting(loader()), input_s={InputPart.INDICES: 0.030})
    draw = HotLine(path=SCRIPT, line=7, function="__iter__", text="pool.remove(i)", phase=Phase.INPUT, step_s=0.020)
    for step_s, levers in ((0.020, ()), (0.002, ("batched-fetch",))):
        finding = input_bound.check(replace(run, hot_lines=(replace(draw, step_s=step_s),)))
        assert finding is not None and finding.try_levers == levers


def test_input_bound_knows_that_items_which_are_kept_are_collated_again() -> None:
    run = replace(waiting(replace(loader(), default_collate=False)), input_s={InputPart.COLLATE: 0.030})
    finding = input_bound.check(run)
    assert finding is not None and finding.try_levers == ("workers",)


def test_input_bound_does_not_name_a_part_that_is_hardly_any() -> None:
    run = replace(waiting(loader()), input_s={InputPart.START: 0.00008})
    finding = input_bound.check(run)
    assert finding is not None, "of a wait whose other parts nobody timed"
    assert finding.evidence.endswith("made by the training process itself.")


def test_input_bound_names_the_collate_function_of_workers_whose_items_cost_nothing() -> None:
    def told(item_s: float | None) -> str:
        own = replace(loader(), num_workers=1, default_collate=False, batch_size=64, item_s=item_s)
        return evidence_of(replace(waiting(own), input_s={InputPart.WORKERS: 0.039}))

    assert told(1e-6).endswith(
        "; 97% of that is waiting for workers, which make a batch's items in 64.0 us: what takes long is the script's "
        "collate function."
    )
    assert "collate" not in told(0.0005) and "collate" not in told(None)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_input_bound_offers_nothing_that_refuses_an_iterable_data_set(num_workers: int) -> None:
    stream = replace(loader(), num_items=None, iterable=True, deterministic=None, num_workers=num_workers)
    finding = input_bound.check(waiting(stream))
    assert finding is not None
    assert finding.try_levers == ()


def test_input_bound_looks_at_the_loader_that_is_trained_on() -> None:
    validation = replace(loader(), num_workers=8, trained_on=False)
    run = replace(run_with(step_s=0.100, input_s=0.040), loaders=(validation, replace(loader(), id=1)))
    finding = input_bound.check(run)
    assert finding is not None
    assert "itself" in finding.evidence


def test_input_bound_knows_nothing_of_a_loader_it_did_not_see() -> None:
    finding = input_bound.check(run_with(step_s=0.100, input_s=0.040))
    assert finding is not None
    assert finding.evidence == "Each step waits 40.0 ms (40% of it) for its batch."


def test_input_bound_does_not_mind_loading_behind_kernels_in_the_queue() -> None:
    run = replace(run_of(input=0.004, forward=0.006), device="NVIDIA H200")
    assert input_bound.check(run) is not None
    for starved_s, found in ((0.0, False), (0.0011, True)):
        hidden = {Phase.INPUT: (starved_s,) * len(run.step_s)}
        assert (input_bound.check(replace(run, device_phase_s=hidden)) is not None) is found


def test_epoch_gap_spreads_the_wait_over_the_steps_of_an_epoch() -> None:
    assert said("epoch-gap") == (
        "Each epoch begins with a wait of 100 ms (its 2 workers are started anew): 5.00 ms a step, 33% of it."
    )


def test_epoch_gap_speaks_of_one_worker_and_of_no_more_than_a_step() -> None:
    run = firing("epoch-gap")
    short = replace(run.loaders[0], num_items=2 * 64, num_workers=1)
    finding = epoch_gap.check(replace(run, loaders=(short,)))
    assert finding is not None
    assert finding.evidence == (
        "Each epoch begins with a wait of 100 ms (its worker is started anew): 15.0 ms a step, 100% of it."
    )


def test_epoch_gap_speaks_of_the_loader_that_most_batches_come_from() -> None:
    run = firing("epoch-gap")
    main = replace(run.loaders[0], num_trained=40)
    few = replace(main, id=1, num_items=64, num_workers=8, num_trained=2)
    looked_at = replace(few, id=2, num_trained=0, trained_on=False)
    assert epoch_gap.check(replace(run, loaders=(looked_at, few, main))) == epoch_gap.check(run)


def test_epoch_gap_counts_a_long_epoch_by_its_data_set_not_by_the_steps_that_were_seen() -> None:
    run = firing("epoch-gap")
    long = replace(run.loaders[0], num_items=10_000 * 64)
    assert epoch_gap.check(replace(run, loaders=(long,))) is None
    assert epoch_gap.check(replace(run, loaders=(long, long))) is None, "two that are trained on"
    by_sampler, sampled = replace(long, batch_size=None), (64,) * len(run.step_s)
    assert epoch_gap.check(replace(run, loaders=(by_sampler,), num_samples=sampled)) is None, (
        "a batch sampler's own sizes"
    )


def test_optimizer_bound_counts_what_is_updated() -> None:
    run = replace(run_of(forward=0.004, backward=0.003, optimizer=0.003), optimizers=(optimizer(), optimizer()))
    finding = optimizer_bound.check(run)
    assert finding is not None
    assert finding.evidence == (
        "Each step spends 3.00 ms (30% of it) in the optimizer, for 407,060 parameters in 8 tensors."
    )
    steps = [
        HotLine(path=SCRIPT, line=line, function="main", text=text, phase=Phase.OPTIMIZER, step_s=step_s)
        for line, text, step_s in ((30, "dense.step()", 0.0005), (31, "sparse.step()", 0.0025))
    ]
    of_two = optimizer_bound.check(replace(run, hot_lines=tuple(steps)))
    assert of_two is not None and "; 2.50 ms of that in line 31 of" in of_two.evidence
    outside, own = replace(steps[1], inside=False), replace(steps[0], text="m.mul_(b1)", step_s=0.0010)
    of_its_own = optimizer_bound.check(replace(run, optimizers=(optimizer(),), hot_lines=(outside, own)))
    assert of_its_own is not None and "; 1.00 ms of that in line 30 of" in of_its_own.evidence


def test_optimizer_bound_does_not_advise_what_is_on_already() -> None:
    run = run_of(forward=0.004, backward=0.003, optimizer=0.003)
    fused = optimizer_bound.check(replace(run, optimizers=(replace(optimizer(), fused=True),)))
    plain = optimizer_bound.check(replace(run, optimizers=(optimizer(),)))
    assert fused is not None and plain is not None
    assert "fused-optimizer" not in fused.try_levers
    assert plain.try_levers[0] == "fused-optimizer"


def test_optimizer_bound_needs_an_optimizer() -> None:
    assert optimizer_bound.check(run_of(forward=0.004, optimizer=0.006)) is None


def test_host_bound_is_about_the_scripts_own_python() -> None:
    finding = host_bound.check(run_of(forward=0.004, backward=0.004, other=0.002))
    assert finding is not None
    assert finding.evidence == "Each step spends 2.00 ms (20% of it) in the script's own Python."
    assert finding.try_levers == ()


def test_host_bound_takes_no_model_of_functions_for_python_where_no_operator_was_seen() -> None:
    # 13 steps of 4 s: the run was over before its operators could be looked at.
    assert host_bound.check(run_of(forward=0.1, backward=1.9, other=1.97)) is None
    finding = host_bound.check(run_of(forward=1.0, backward=1.5, other=1.5))
    assert finding is not None and finding.cost_s == pytest.approx(1.0)


def test_host_bound_names_the_library_that_makes_every_call_of_the_model() -> None:
    run = run_of(forward=0.004, backward=0.004, other=0.002)
    site = CallSite(calls="forward", path=SCRIPT, sha256="", line=9, end_line=9, col=0, end_col=9)
    called = replace(site, detail={"through": "transformers.trainer"})
    finding = host_bound.check(replace(run, call_sites=(called,)))
    assert finding is not None
    assert finding.evidence.endswith("in Python of transformers and the script.")


@pytest.mark.parametrize(
    ("in_library_s", "whose"),
    [(0.0018, "Python of accelerate"), (0.001, "Python of accelerate and the script"), (0.0002, "script's own Python")],
)
def test_host_bound_names_the_library_that_the_costly_lines_call(in_library_s: float, whose: str) -> None:
    own = HotLine(path=SCRIPT, line=3, function="main", text="log()", phase=Phase.OTHER, step_s=0.002 - in_library_s)
    called = replace(own, line=9, text="accelerator.backward(loss)", step_s=in_library_s, library="accelerate")
    model = replace(called, phase=Phase.FORWARD, step_s=0.004, library="timm")
    run = replace(run_of(forward=0.004, backward=0.004, other=0.002), hot_lines=(model, called, own))
    assert f"of it) in {whose}" in evidence_of(run).replace("the script's own", "script's own")
    line, text = (9, "accelerator.backward(loss)") if in_library_s >= 0.001 else (3, "log()")
    assert evidence_of(run).endswith(f"in line {line} of digits.py, main: {text}."), "the user's line is the place"


def test_host_bound_tells_what_is_done_once_in_a_while() -> None:
    run = run_of(forward=0.3, backward=0.4, other=0.3)
    assert "steps" not in evidence_of(run).replace("Each step", "")
    steps = len(run.step_s)
    rare = {**run.phase_s, Phase.OTHER: (0.3 * steps, *(0.0,) * (steps - 1))}
    assert f", most of it in 1 of {steps} steps" in evidence_of(replace(run, phase_s=rare))
    crowded = CpuUse(usable_cores=2.0, main=0.3, others=0.0, runnable=1.0)
    assert crowded.disturbed
    waited = replace(run, phase_s=rare, cpu=crowded)
    assert "most of it in" not in evidence_of(waited), "that step may have waited for a core"
    grows = {**run.phase_s, Phase.OTHER: tuple(0.3 * (1 + k / steps) for k in range(steps))}
    assert ", while other grows from " in evidence_of(replace(run, phase_s=grows))


def test_waits_for_cores_that_others_have_are_no_python() -> None:
    run = replace(firing("host-bound"), calls=healthy().calls)
    steps, mean_s = len(run.step_s), run.mean_phase_s(Phase.OTHER) or 0.0
    rare = replace(run, phase_s={**run.phase_s, Phase.OTHER: (mean_s * steps, *(0.0,) * (steps - 1))})
    busy = CpuUse(usable_cores=2.0, main=0.3, others=0.0, runnable=1.0)
    steady_s, alone_s = (host_bound.spent_s(one)[0] for one in (replace(run, cpu=busy), rare))
    waiting_s = host_bound.spent_s(replace(rare, cpu=busy))[0]
    assert waiting_s == pytest.approx(steady_s - 0.7 * mean_s), "all but what training had of a core"
    assert steady_s > 0.9 * alone_s, "each step has as much"
    threads = replace(rare, cpu=replace(busy, threads=0.5))
    assert host_bound.spent_s(threads)[0] == pytest.approx(steady_s), "it may wait for its own"


def test_host_bound_says_that_it_may_wait_for_other_threads() -> None:
    run = run_of(forward=0.004, backward=0.004, other=0.002)
    for threads, told in ((0.0, False), (0.01, False), (0.5, True)):
        cpu = CpuUse(usable_cores=2.0, main=0.9, others=0.0, threads=threads)
        assert (
            ", or waits for other threads of the process, which compute meanwhile" in evidence_of(replace(run, cpu=cpu))
        ) is told
        assert any(one.name == "host" for one in ceilings(replace(run, cpu=cpu))) is not told


def test_host_bound_names_the_line() -> None:
    line = HotLine(path=SCRIPT, line=31, function="main", text="log(loss)", phase=Phase.OTHER, step_s=0.0015)
    elsewhere = replace(line, line=3, phase=Phase.INPUT, step_s=0.003)
    run = replace(run_of(forward=0.004, backward=0.004, other=0.002), hot_lines=(elsewhere, line))
    finding = host_bound.check(run)
    assert finding is not None
    assert finding.evidence.endswith("own Python; 1.50 ms of that in line 31 of digits.py, main: log(loss).")
    longer, hardly = (replace(run, hot_lines=(replace(line, step_s=seconds),)) for seconds in (0.003, 0.0001))
    assert "; 2.00 ms of that in line 31" in evidence_of(longer), "no more than all of it"
    assert evidence_of(hardly).endswith("own Python.")


def test_a_loop_over_many_lines_is_named_with_its_function() -> None:
    """No line of the loop is the costliest, all of it is."""
    one = HotLine(path=SCRIPT, line=31, function="main", text="log(loss)", phase=Phase.OTHER, step_s=0.0015)
    loop = [
        replace(one, line=n, function="confuse", text=f"row[{n}] += 1", step_s=s)
        for n, s in ((7, 0.001), (9, 0.0012), (8, 0.0008))
    ]
    run = replace(run_of(forward=0.004, backward=0.001, other=0.005), hot_lines=(one, *loop))
    assert evidence_of(run).endswith(
        "; 3.00 ms of that in lines 7 to 9 of digits.py, confuse, most in line 9: row[9] += 1."
    )
    hot = replace(loop[0], step_s=0.0025)
    assert "; 2.50 ms of that in line 7 of digits.py, confuse" in evidence_of(
        replace(run, hot_lines=(one, hot, *loop[1:]))
    )


def evidence_of(run: Run) -> str:
    return rules.check(run)[0].evidence


def test_host_bound_sees_python_within_the_forward_pass() -> None:
    run = replace(healthy(), calls=calls(step_s=0.01, arithmetic=0.3))
    finding = host_bound.check(run)
    assert finding is not None
    assert "within the model" in finding.evidence
    assert host_bound.check(replace(run, compiled=True)) is None, "of compiled code operators are not seen"


def test_host_bound_names_no_line_of_the_model_where_hardly_any_python_is_in_it() -> None:
    """Lines of a model take longer than their operators were seen to, where others have the cores."""
    seen = calls(step_s=0.01)
    forward = replace(seen.phases[Phase.FORWARD], line_calls={f"{SCRIPT}:20": 30.0})
    run = replace(
        run_of(forward=0.004, backward=0.004, other=0.002),
        calls=replace(seen, phases={**seen.phases, Phase.FORWARD: forward}),
    )
    layers = HotLine(path=SCRIPT, line=20, function="forward", text="f(x)", phase=Phase.FORWARD, step_s=0.003)
    mask = replace(layers, line=21, text="make(x)", step_s=0.0001)
    log = replace(layers, line=30, function="log", text="write(loss)", phase=Phase.OTHER, step_s=0.0015)
    finding = host_bound.check(replace(run, hot_lines=(layers, log, mask)))
    assert finding is not None and "in line 30 of digits.py, log: write(loss)" in finding.evidence


def test_host_bound_leaves_out_what_giving_memory_back_may_take() -> None:
    run = replace(healthy(), calls=calls(step_s=0.01, arithmetic=0.5, streaming=0.45))
    assert host_bound.check(run) is None
    more = host_bound.check(replace(run, calls=calls(step_s=0.01, arithmetic=0.3, streaming=0.2)))
    assert more is not None, "what temporaries cannot explain is Python"


def in_line(phase: Phase, *, inside: bool, step_s: float = 0.008) -> HotLine:
    return HotLine(
        path=SCRIPT, line=31, function="main", text="loss.backward()", phase=phase, step_s=step_s, inside=inside
    )


def test_host_bound_needs_code_of_the_scripts_within_the_model() -> None:
    run = replace(healthy(), calls=calls(step_s=0.01, arithmetic=0.3))
    lines = [in_line(phase, inside=False) for phase in (Phase.FORWARD, Phase.BACKWARD)]
    assert host_bound.check(replace(run, hot_lines=tuple(lines))) is None, "whatever takes the time, it is a library's"
    hook = in_line(Phase.BACKWARD, inside=True, step_s=0.0032)
    finding = host_bound.check(replace(run, hot_lines=(*lines, replace(hook, line=7, text="norms.append(norm(g))"))))
    assert finding is not None
    assert finding.cost_s == pytest.approx(0.0003 + 0.0032), "what was met there, and a little between the phases"
    assert "line 7 of digits.py" in finding.evidence


def test_host_bound_tells_no_python_within_the_model_where_others_took_the_cores_and_no_line_was_seen() -> None:
    run = replace(healthy(), calls=calls(step_s=0.01, arithmetic=0.3))
    busy = CpuUse(usable_cores=2.0, main=0.25, others=0.0, runnable=1.0, throttled=0.0)
    assert host_bound.check(run) is not None
    assert host_bound.check(replace(run, cpu=busy)) is None


def test_a_machine_that_was_busy_while_steps_were_recorded_makes_no_python() -> None:
    """Operators were seen when a step took a third of the time."""
    run, step_s = healthy(), 0.01
    calm = calls(step_s=step_s / 3)
    assert host_bound.check(replace(run, calls=calm)) is not None
    plain_s = {phase: seconds[0] / 3 for phase, seconds in run.phase_s.items() if seconds}
    assert host_bound.check(replace(run, calls=replace(calm, plain_s=plain_s))) is None


def test_memory_bound_counts_operators_at_the_pace_of_the_recorded_steps() -> None:
    run = firing("memory-bound")
    assert run.calls is not None
    calm = calls(step_s=0.005, streaming=0.7)
    assert memory_bound.check(replace(run, calls=calm)) is None
    plain_s = {phase: seconds[0] / 2 for phase, seconds in run.phase_s.items() if seconds}
    finding, same = memory_bound.check(replace(run, calls=replace(calm, plain_s=plain_s))), memory_bound.check(run)
    assert finding is not None and same is not None
    assert finding.cost_s == pytest.approx(same.cost_s)


def test_operators_of_a_phase_take_no_more_than_the_phase_of_the_recorded_steps() -> None:
    """A short backward pass that others held up for much of the time, beside Python that is the most of the step."""
    run = run_of_shares({Phase.FORWARD: 0.1, Phase.BACKWARD: 0.15, Phase.OTHER: 0.7})
    seen = calls(step_s=0.01)
    backward = replace(seen.phases[Phase.BACKWARD], streaming_s=0.0015, double_s=0.0015)
    held_up = replace(seen, phases={Phase.BACKWARD: backward}, plain_s={Phase.BACKWARD: 0.0015 / 8})
    assert memory_bound.check(replace(run, calls=held_up)) is None
    assert double_precision.check(replace(run, calls=held_up)) is None


def test_host_bound_leaves_a_loss_that_is_written_as_functions_to_the_model() -> None:
    run = run_of_shares({Phase.FORWARD: 0.4, Phase.BACKWARD: 0.4, Phase.OTHER: 0.2})
    seen = calls(step_s=0.01)
    loss = replace(seen.phases[Phase.FORWARD], graph_s=0.0019, arithmetic_s=0.0019)
    assert host_bound.check(run) is not None
    assert host_bound.check(replace(run, calls=replace(seen, phases={**seen.phases, Phase.OTHER: loss}))) is None


def test_host_bound_tells_operators_that_are_not_the_models() -> None:
    run = run_of_shares({Phase.FORWARD: 0.4, Phase.BACKWARD: 0.4, Phase.OTHER: 0.2})
    seen = calls(step_s=0.01)
    metrics = replace(seen.phases[Phase.FORWARD], graph_s=0.0, graph_calls=0, arithmetic_s=0.0015)
    finding = host_bound.check(replace(run, calls=replace(seen, phases={**seen.phases, Phase.OTHER: metrics})))
    assert finding is not None
    mostly = "2.00 ms (20% of it) in what the script does beside its model, 1.50 ms of it in operators that it calls."
    assert mostly in finding.evidence


def test_host_bound_takes_operators_that_others_hold_up_for_no_python() -> None:
    """On a busy machine they took three times their arithmetic: noise is drawn for most of the time between phases."""
    run = run_of_shares({Phase.FORWARD: 0.4, Phase.BACKWARD: 0.2, Phase.OTHER: 0.4})
    seen = calls(step_s=0.01)
    noise = replace(
        seen.phases[Phase.FORWARD], graph_s=0.0001, graph_calls=1, arithmetic_s=0.0013, inside_s=0.0039,
        graph_inside_s=0.0003,
    )  # fmt: skip
    finding = host_bound.check(replace(run, calls=replace(seen, phases={**seen.phases, Phase.OTHER: noise})))
    assert finding is not None
    assert "in what the script does beside its model, 3.60 ms of it in operators" in finding.evidence


def test_host_bound_tells_of_small_operators_that_others_hold_up_beside_a_loss() -> None:
    """Weights averaged by hand: 576 calls of next to no arithmetic waited for a core, and one of the loss did not."""
    run = run_of_shares({Phase.FORWARD: 0.4, Phase.BACKWARD: 0.2, Phase.OTHER: 0.4})
    seen = calls(step_s=0.01)
    average = replace(
        seen.phases[Phase.FORWARD], calls=577, graph_calls=1, arithmetic_s=0.00018, graph_s=0.00005, inside_s=0.012,
        graph_inside_s=0.0002,
    )  # fmt: skip
    finding = host_bound.check(replace(run, calls=replace(seen, phases={**seen.phases, Phase.OTHER: average})))
    assert finding is not None
    assert "3.80 ms (38% of it) in what the script does beside its model" in finding.evidence


def test_host_bound_tells_of_a_models_line_without_operators() -> None:
    """A library's sparse matrices in a forward pass: less of a step than may be the price of calls, at one line. (Three
    layers on a busy machine took ten times as long as alone, by the threads that they waited for.)"""
    run = run_of_shares({Phase.FORWARD: 0.6, Phase.BACKWARD: 0.4})
    seen = calls(step_s=0.01)
    forward = replace(seen.phases[Phase.FORWARD], line_calls={"/t.py:9": 20.0}, lines={"/t.py:9": 0.002})
    run = replace(run, calls=replace(seen, phases={**seen.phases, Phase.FORWARD: forward}))
    graph = HotLine(path="/t.py", line=3, function="graph", text="d @ a @ d", phase=Phase.FORWARD, step_s=0.002)
    layers = replace(graph, line=9, function="forward", step_s=0.003)
    found = host_bound.check(replace(run, hot_lines=(layers, graph)))
    assert found is not None
    assert found.cost_s == pytest.approx(0.002) and "in line 3 of t.py, graph" in found.evidence
    assert host_bound.check(replace(run, hot_lines=(layers,))) is None, "it may be the price of its calls"


def test_host_bound_leaves_operators_out_of_its_lines() -> None:
    """A loss of large temporaries: its operators, and giving their memory back, are most of its line."""
    run = run_of_shares({Phase.FORWARD: 0.3, Phase.BACKWARD: 0.2, Phase.OTHER: 0.5})
    line = HotLine(path="/t.py", line=3, function="loss", text="d", phase=Phase.OTHER, step_s=0.0035)
    lines = (line, replace(line, line=9, function="log", step_s=0.0015))
    seen = calls(step_s=0.01)
    loss = replace(seen.phases[Phase.FORWARD], graph_calls=3, graph_s=0.0015, lines={"/t.py:3": 0.0031})
    run = replace(run, hot_lines=lines, calls=replace(seen, phases={**seen.phases, Phase.OTHER: loss}))
    finding = host_bound.check(run)
    assert finding is not None
    assert finding.cost_s == pytest.approx(0.0019), "all but the 3.1 ms of the loss"
    assert "1.50 ms of that in line 9 of t.py, log" in finding.evidence


def test_host_bound_is_at_most_what_its_line_takes_with_all_that_it_calls() -> None:
    """A line that draws from a distribution, of whose time half is operators on what the model made."""
    run = run_of_shares({Phase.FORWARD: 0.2, Phase.BACKWARD: 0.1, Phase.OTHER: 0.7})
    draws = HotLine(path="/t.py", line=3, function="act", text="draw()", phase=Phase.OTHER, step_s=0.006)
    seen = calls(step_s=0.01)
    drawn = replace(seen.phases[Phase.FORWARD], graph_calls=3, graph_s=0.003, lines={"/t.py:3": 0.003})
    run = replace(run, hot_lines=(draws,), calls=replace(seen, phases={**seen.phases, Phase.OTHER: drawn}))
    finding = host_bound.check(run)
    assert finding is not None
    assert finding.evidence.endswith(
        "; 3.00 ms of that in line 3 of t.py, act: draw() (6.00 ms with all that it calls)."
    )
    assert finding.cost_s < 0.0041
    assert finding.at_most_share * run.mean_step_s() == pytest.approx(finding.cost_s + 0.003)


def test_host_bound_is_silent_when_the_model_hides_in_other() -> None:
    assert host_bound.check(run_of(backward=0.004, other=0.006)) is None


def test_compute_bound_says_how_much_is_forward_and_how_much_backward() -> None:
    finding = compute_bound.check(run_of(forward=0.003, backward=0.005, other=0.002))
    assert finding is not None
    assert finding.evidence == "Each step spends 8.00 ms (80% of it) in the model: 30% forward, 50% backward."


def test_compute_bound_names_the_line_of_the_model_or_of_a_loss_with_most_arithmetic() -> None:
    """A penalty by a decomposition, written as a function: the step's largest part, and no Python."""
    line = HotLine(path="/t.py", line=22, function="penalty", text="svd(w)", phase=Phase.OTHER, step_s=0.007)
    seen = calls(step_s=0.01)
    svd = PhaseCalls(
        calls=5, arithmetic_s=0.007, graph_calls=5, graph_s=0.007, graph_inside_s=0.007, inside_s=0.007,
        lines={"/t.py:22": 0.007},
    )  # fmt: skip
    run = replace(run_of(forward=0.001, backward=0.001, other=0.008), hot_lines=(line,))
    run = replace(run, calls=replace(seen, phases={**seen.phases, Phase.OTHER: svd}))
    finding = next(one for one in rules.check(run) if one.code == "compute-bound")
    assert finding.evidence == (
        "Each step spends 9.00 ms (90% of it) in the model: 10% forward, 10% backward, 70% in functions; 7.00 ms of "
        "that in line 22 of t.py, penalty: svd(w)."
    )


def test_what_can_be_fixed_stands_before_the_models_own_work() -> None:
    run = firing("unneeded-gradients")
    (site,) = run.call_sites
    run = replace(run, call_sites=(replace(site, detail={**site.detail, "unneeded": 2000}),))
    assert [one.code for one in rules.check(run)] == ["unneeded-gradients", "compute-bound"]


def test_compute_bound_never_advises_autocast_where_it_is_on() -> None:
    finding = compute_bound.check(replace(run_of(forward=0.003, backward=0.005), autocast=True, compiled=True))
    assert finding is not None
    assert not {"bf16-autocast", "compile"} & set(finding.try_levers)


def test_where_sequences_are_packed_padding_is_worth_trying_first() -> None:
    packing = Operator(name="aten::_pack_padded_sequence", per_step=1.0, self_s=1e-4, device_s=None)
    window = replace(device_window(step_s=0.01, gap=0.0), operators=(packing,))
    for plain in (run_of(forward=0.003, backward=0.005), firing("launch-bound")):
        check = compute_bound.check if plain.calls is None else launch_bound.check
        levers = [
            found.try_levers
            for run in (plain, replace(plain, operators=window), replace(plain, operators=window, device="NVIDIA H200"))
            if (found := check(run)) is not None
        ]
        assert ["padded-recurrent" in tried[:1] for tried in levers[:2]] == [False, True]
        assert not any("padded-recurrent" in tried for tried in levers[2:])


def test_launch_bound_counts_calls_and_sets_them_beside_the_arithmetic() -> None:
    assert said("launch-bound") == (
        "Each step makes 700 calls of operators in the model, which cost 7.08 ms (71% of it) beside "
        "1.84 ms of arithmetic."
    )


def test_launch_bound_may_bring_all_that_a_loop_computes_and_its_part_of_the_backward_pass() -> None:
    """Nine tenths of the calls of a forward pass are made in one line."""
    run = firing("launch-bound")
    assert run.calls is not None
    forward = replace(run.calls.phases[Phase.FORWARD], line_calls={"/t.py:3": 315.0, "/t.py:9": 35.0})
    loop = replace(run, calls=replace(run.calls, phases={**run.calls.phases, Phase.FORWARD: forward}))
    shares = [found.at_most_share for one in (loop, run) if (found := launch_bound.check(one)) is not None]
    passes = sum(run.mean_phase_s(phase) or 0.0 for phase in (Phase.FORWARD, Phase.BACKWARD)) / run.mean_step_s()
    assert shares == [pytest.approx(0.9 * passes), 0.0]
    assert loop.operators is not None
    for number, is_loop in ((1.0, False), (100.0, True)):
        layer = (Operator(name="aten::gru", per_step=number, self_s=1e-4),)
        found = launch_bound.check(replace(loop, operators=replace(loop.operators, operators=layer)))
        assert found is not None
        assert bool(found.at_most_share) is is_loop, "torch's own loop stays"


@pytest.mark.parametrize("path", ["/home/me/tr\\udce4in.py", "C:\\me\\train.py", "train.py"])
def test_a_file_is_named_whole(path: str) -> None:
    assert change.file_name(path) == ("tr\\udce4in.py" if "udce4" in path else "train.py")


def test_launch_bound_prices_calls_at_the_time_that_they_take_beside_others() -> None:
    """The training has a core for a quarter of the time; what one call costs was measured when it had one."""
    run = run_of_shares({Phase.FORWARD: 0.4, Phase.BACKWARD: 0.5}, step_s=0.04)
    busy = CpuUse(usable_cores=2.0, main=0.25, others=0.0, runnable=1.0, throttled=0.0)
    loop = replace(run, calls=calls(step_s=0.01, arithmetic=0.2, number=500))
    assert launch_bound.check(loop) is None
    found = launch_bound.check(replace(loop, cpu=busy))
    assert found is not None and found.cost_s == pytest.approx(4 * 0.006)
    assert launch_bound.check(replace(run, calls=calls(step_s=0.01), cpu=busy)) is None, "few calls"


def looped(*, flops: float = 2e7, num: float = 32.0) -> Run:
    """A recurrent layer that is called for each moment: few calls, each much longer than a tiny operator's."""
    run = run_of_shares({Phase.FORWARD: 0.4, Phase.BACKWARD: 0.5}, step_s=0.02)
    seen = OperatorWindow(
        num_steps=5,
        wall_s=0.03,
        operators=(Operator(name="aten::mkldnn_rnn_layer", per_step=num, self_s=0.02),),
        num_calls=200,
        flops=flops,
        moved_bytes=5e6,
    )
    line = replace(in_line(Phase.FORWARD, inside=False), text="out, state = lstm(x[:, t : t + 1], state)")
    facts = calls(step_s=0.02, arithmetic=0.9, number=200)
    return replace(run, calls=facts, operators=seen, hot_lines=(line,), num_forwards=(32,) * len(run.step_s))


def test_launch_bound_tells_many_calls_that_compute_little_from_arithmetic() -> None:
    found = launch_bound.check(looped())
    assert found is not None and found.share == pytest.approx(0.83, abs=0.1)
    assert "200 calls of operators in the model, 32 of them of aten::mkldnn_rnn_layer" in found.evidence
    assert "one core needs 3.00 ms at most" in found.evidence and "lstm(x[:, t : t + 1], state)" in found.evidence
    assert launch_bound.check(looped(flops=2e8)) is None, "they compute"
    assert launch_bound.check(looped(num=2.0)) is None, "one slow operator is not many"
    busy = CpuUse(usable_cores=2.0, main=0.2, others=0.0, runnable=1.0, throttled=0.0, busiest_worker=0.0)
    assert launch_bound.check(replace(looped(), cpu=busy)) is None, "others took the cores"


def test_launch_bound_names_the_line_of_a_loss_that_makes_most_of_the_calls() -> None:
    run = replace(healthy(), calls=calls(step_s=0.01, arithmetic=0.2, number=700))
    assert run.calls is not None
    of_loss = PhaseCalls(calls=450, arithmetic_s=0.0, graph_calls=400, graph_s=0.0)
    facts = replace(run.calls, phases={**run.calls.phases, Phase.OTHER: of_loss})
    lines = tuple(replace(in_line(phase, inside=True), text=f"{phase} = x") for phase in (Phase.FORWARD, Phase.OTHER))
    found = launch_bound.check(replace(run, calls=facts, hot_lines=lines))
    assert found is not None and found.evidence.startswith("Each step makes 1,100 calls of operators in the model")
    assert found.evidence.endswith("other = x.")


def test_launch_bound_believes_no_incomplete_window() -> None:
    gap = device_window(step_s=0.01, gap=0.5)
    run = replace(run_of_shares({Phase.FORWARD: 0.5, Phase.BACKWARD: 0.5}, device="NVIDIA H200"), operators=gap)
    assert launch_bound.check(run) is not None
    assert launch_bound.check(replace(run, operators=replace(gap, complete=False))) is None


def test_thread_starvation_says_what_was_tried() -> None:
    run = replace(firing("thread-starvation"), switches=SwitchFacts(environment={"OMP_NUM_THREADS": "1"}))
    finding = thread_starvation.check(run)
    assert finding is not None
    assert finding.evidence == (
        "torch computes with 1 thread (OMP_NUM_THREADS=1) where 2 cores may be used: "
        "with 2, a step would be 4.00 ms (40%) shorter."
    )
    assert thread_oversubscription.check(run) is None


def test_thread_starvation_does_not_trust_pairs_that_disagree() -> None:
    run = firing("thread-starvation")
    doubtful = tuple(replace(what_if, agree=0.5) for what_if in run.what_ifs)
    assert thread_starvation.check(replace(run, what_ifs=doubtful)) is None


def test_thread_starvation_sees_the_quota() -> None:
    use = CpuUse(usable_cores=0.5, main=0.5, others=0.0, throttled=0.4)
    finding = thread_starvation.check(replace(healthy(), cpu=use))
    assert finding is not None
    assert finding.share == pytest.approx(0.4)


def test_thread_oversubscription_sees_workers_that_compute_with_many_threads() -> None:
    use = CpuUse(usable_cores=2.0, main=0.4, others=1.6, runnable=20.0, throttled=0.0, busiest_worker=9.0)
    finding = thread_oversubscription.check(replace(healthy(), cpu=use))
    assert finding is not None
    assert finding.evidence.startswith("20.0 threads want to run on 2 cores, 9.0 of them in one worker")


def test_debug_left_on_tells_its_price_or_that_it_has_none() -> None:
    assert said("debug-left-on") == (
        "Left on while training: anomaly mode; without, each step would be 4.00 ms (40%) shorter."
    )
    untried = debug_left_on.check(replace(healthy(), switches=SwitchFacts(profiler=True)))
    assert untried is not None
    assert untried.cost_s == 0
    assert "could not be tried" in untried.evidence


def test_debug_left_on_knows_what_a_profiler_costs() -> None:
    tried = left_off("profiler", 0.01, without_s=[0.006] * 3)
    finding = debug_left_on.check(replace(healthy(), switches=SwitchFacts(profiler=True), what_ifs=(tried,)))
    assert finding is not None
    assert finding.evidence == (
        "Left on while training: a profiler; without, each step would be 4.00 ms (40%) shorter."
    )


@pytest.mark.parametrize("better", [1, -1])
def test_debug_left_on_tells_a_cost_that_is_below_the_noise_as_that(better: int) -> None:
    blocks_s = [0.01 * (1 + better * off) for off in (0.01, -0.03, 0.02, -0.01, 0.012)]
    tried = left_off("deterministic", 0.01, without_s=blocks_s)
    computing = run_of(forward=0.004, backward=0.006)
    run = replace(computing, calls=calls(step_s=0.01), switches=SwitchFacts(deterministic=True), what_ifs=(tried,))
    finding = debug_left_on.check(run)
    assert finding is not None
    assert re.fullmatch(
        r"Left on while training: deterministic algorithms; the cost of deterministic algorithms could not be told "
        r"from none: at most 2\d\d us \([23]%\) of each step\.",
        finding.evidence,
    )
    assert finding.cost_s == 0, "whichever side of none the noise put it on"
    assert [one.code for one in rules.check(run)] == ["compute-bound", "debug-left-on"]


def test_debug_left_on_adds_up_what_it_could_tell() -> None:
    told, untold = (
        left_off("anomaly-mode", 0.01, without_s=[0.006] * 3),
        left_off("deterministic", 0.01, without_s=[0.01] * 3),
    )
    switches = SwitchFacts(anomaly_mode=True, deterministic=True)
    finding = debug_left_on.check(replace(healthy(), switches=switches, what_ifs=(told, untold)))
    assert finding is not None
    assert finding.evidence.endswith(
        "without, each step would be 4.00 ms (40%) shorter; the cost of deterministic algorithms could not be told "
        "from none: at most 0 us (0%) of each step."
    )


def test_debug_left_on_minds_cudas_switches_only_on_a_device() -> None:
    switches = SwitchFacts(launch_blocking=True, sync_debug=True, cudnn_deterministic=True)
    run = replace(healthy(), switches=switches)
    assert debug_left_on.check(run) is None
    finding = debug_left_on.check(replace(run, device="NVIDIA H200"))
    assert finding is not None
    assert "CUDA_LAUNCH_BLOCKING" in finding.evidence


def test_memory_growth_says_how_much_a_step_adds() -> None:
    assert said("memory-growth").startswith("Memory in the process grew by 35.0 MiB in 39 steps, 919 KiB each")


def test_memory_growth_that_ends_the_run_soon_comes_before_what_costs_more() -> None:
    run = replace(firing("memory-growth"), phase_s=firing("input-bound").phase_s, epoch_starts=(20,))
    roomy = replace(machine(), available_bytes=1 << 50)
    assert [found.code for found in rules.check(run, roomy)] == ["input-bound", "memory-growth"]
    first = rules.check(run, replace(machine(), available_bytes=1 << 30))[0]
    assert (first.code, first.urgent) == ("memory-growth", True)
    assert "each, and goes on; " in first.evidence and "All of it would be full in" in first.evidence


def test_memory_growth_within_one_epoch_may_end_with_it_and_is_not_urgent() -> None:
    short = replace(machine(), available_bytes=1 << 30)
    for starts, outlasts in (((), False), ((20,), True), ((38,), False), ((0,), False)):
        found = memory_growth.check(replace(firing("memory-growth"), epoch_starts=starts), short)
        assert found is not None and found.urgent is outlasts
        assert ("each, until now; " in found.evidence and "does it fall there?" in found.evidence) is not outlasts
    little = replace(healthy(), memory=memory(per_step=919 << 10))
    assert [found.code for found in rules.check(little, short)] == ["compute-bound", "memory-growth"]
    roomy = replace(short, available_bytes=1 << 50)
    assert [found.code for found in rules.check(little, roomy)] == ["compute-bound"], "it may be the epoch's"


def test_transfer_bound_names_the_line_that_copies_longest() -> None:
    run = firing("transfer-bound")
    assert "longest" not in rules.ALL["transfer-bound"](run, None).evidence  # type: ignore[union-attr]
    short = sighting(SightingKind.BLOCKING_COPY, cost_s=0.1)
    made = replace(sighting(SightingKind.BLOCKING_COPY, cost_s=0.2), line=7, text="mask = torch.zeros(64).to(device)")
    found = rules.ALL["transfer-bound"](replace(run, sightings=(short, made)), None)
    assert found is not None
    assert found.evidence.endswith("; the longest is made in line 7 of digits.py: mask = torch.zeros(64).to(device).")


def test_advice_counts_half_of_what_it_may_bring() -> None:
    def made(code: str, share: float, *, advice: bool = False, urgent: bool = False) -> Finding:
        return Finding(code=code, cost_s=share, share=share, evidence=".", advice=advice, urgent=urgent)

    slight, waits = made("debug-left-on", 0.002), made("input-bound", 0.2)
    leak = made("memory-growth", 0.001, urgent=True)
    large, small = made("frozen-features", 0.5, advice=True), made("denormal-numbers", 0.3, advice=True)
    assert rules.in_order([slight, small, waits, large, leak]) == (leak, large, waits, small, slight)


def test_a_fault_that_costs_next_to_nothing_does_not_hide_what_bounds_the_step() -> None:
    roomy = replace(machine(), available_bytes=1 << 50)
    little = replace(healthy(), memory=memory(per_step=919 << 10), epoch_starts=(20,))
    assert [found.code for found in rules.check(little, roomy)] == ["compute-bound", "memory-growth"]
    much = replace(healthy(), memory=memory(per_step=9 << 20))
    assert [found.code for found in rules.check(much, roomy)] == ["memory-growth"]


def test_memory_growth_is_not_what_goes_up_and_down() -> None:
    """As seen in a sound training: MiB of eighths of its steps."""
    seen = (401.05, 376.56, 376.57, 401.08, 413.47, 413.48, 413.49, 413.50)
    samples = [
        replace(sample, private_bytes=round((seen[k // 5]) * (1 << 20))) for k, sample in enumerate(memory(per_step=0))
    ]
    assert memory_growth.check(replace(healthy(), memory=tuple(samples))) is None


def test_memory_growth_is_not_priced_by_what_others_take_of_the_cores() -> None:
    run = firing("memory-growth")
    slower = replace(run, step_s=tuple((1 + k) * run.step_s[0] for k in range(len(run.step_s))))
    alone, beside = memory_growth.check(slower), memory_growth.check(replace(slower, cpu=BUSY))
    assert alone is not None and beside is not None
    assert alone.share > 0.3 and beside.share < 0.05


BUSY = CpuUse(usable_cores=2.0, main=0.6, others=0.0, runnable=1.9, throttled=0.0)


def test_memory_growth_says_nothing_while_a_profiler_keeps_its_events() -> None:
    run = firing("memory-growth")
    assert memory_growth.check(run) is not None
    assert memory_growth.check(replace(run, switches=SwitchFacts(profiler=True))) is None
    assert memory_growth.check(replace(run, switches=SwitchFacts())) is not None


def test_memory_growth_leaves_to_shapes_what_comes_with_them() -> None:
    run = firing("memory-growth")
    churn = ShapeFacts(num_steps=60, num_shapes=30, num_new_late=15, new_steps=tuple(range(0, 60, 2)))
    # Each new shape leaves 2 MiB behind, a known one nothing.
    stairs = tuple(
        replace(sample, private_bytes=(400 << 20) + (sample.step // 2 << 21)) for sample in memory(per_step=1 << 20)
    )
    leak = replace(run, shapes=churn)
    assert memory_growth.check(leak) is not None, "the same at every step"
    assert memory_growth.check(replace(leak, memory=stairs)) is None
    few = replace(churn, num_shapes=8, new_steps=tuple(range(0, 16, 2)))
    assert memory_growth.check(replace(leak, memory=stairs, shapes=few)) is not None
    always = replace(churn, num_shapes=60, num_new_late=30, new_steps=tuple(range(60)))
    assert memory_growth.check(replace(leak, shapes=always)) is None, "nobody can tell"


def test_memory_growth_leaves_alone_what_longer_steps_need() -> None:
    """An episode a step, each longer than those before it: more forward passes, more memory, and as long for each."""
    run = firing("memory-growth")
    num = len(run.step_s)
    longer = replace(
        run, num_forwards=tuple(range(20, 20 + num)), step_s=tuple(0.001 * (20 + k) for k in range(num)), phase_s={}
    )
    assert memory_growth.check(longer) is None
    # Episodes of which every tenth is longer than all before: memory that grows in the others as well is a leak.
    leak = replace(longer, num_forwards=tuple(20 + k // 10 for k in range(num)), step_s=run.step_s)
    assert memory_growth.check(leak) is not None


def test_memory_growth_prices_what_one_forward_pass_takes_longer() -> None:
    run = firing("memory-growth")
    num = len(run.step_s)
    slower = tuple(0.010 * (1 + k / num) for k in range(num))
    costs = [
        found.cost_s
        for work in ((10,) * num, tuple(10 + 10 * k // num for k in range(num)))
        if (found := memory_growth.check(replace(run, step_s=slower, num_forwards=work))) is not None
    ]
    assert len(costs) == 2, "with known work at most steps, growth is growth"
    assert costs[0] > 0.003, "the same work takes longer and longer"
    assert costs[1] < 0.001, "more work takes as long for each pass"


def test_memory_growth_does_not_mind_pages_of_a_mapped_file() -> None:
    mapped = tuple(replace(sample, private_bytes=400 << 20) for sample in memory(per_step=1 << 20))
    assert memory_growth.check(replace(healthy(), memory=mapped)) is None


def test_shape_churn_prices_new_shapes_by_the_steps_that_brought_known_ones() -> None:
    run = firing("shape-churn")
    assert run.shapes is not None
    finding = shape_churn.check(run)
    assert finding is not None
    share = sum(step in run.shapes.new_steps for step in run.step_index) / len(run.step_index)
    assert finding.cost_s == pytest.approx(0.01 * share)


# Of three steps with known shapes: shorter in the middle, and as often as not longer.
KNOWN_S = (0.002, 0.009, 0.012, *(0.0,) * 100)


def churn_s(run: Run) -> float:
    finding = shape_churn.check(run)
    assert finding is not None
    return finding.cost_s


def test_shape_churn_compares_steps_of_like_sizes_of_this_process_alone() -> None:
    run = firing("shape-churn")
    assert run.shapes is not None
    new = [step in run.shapes.new_steps for step in run.step_index]
    elements = {step: 100 + 50 * is_new + step % 7 for step, is_new in zip(run.step_index, new, strict=True)}
    first = next(step for step in run.shapes.new_steps if step in elements)
    elements[first] = 100  # a new one as short as the shortest known one
    shapes = replace(run.shapes, elements=elements)
    longer = tuple(elements[step] * 1e-4 for step in run.step_index)
    assert churn_s(replace(run, shapes=replace(shapes, elements={}), step_s=longer)) > 0.003
    assert churn_s(replace(run, shapes=shapes, step_s=longer)) == pytest.approx(0.0, abs=1e-9), "new ones are longer"
    dearer = tuple(seconds + 0.002 * is_new for seconds, is_new in zip(longer, new, strict=True))
    share = sum(new) / len(new)
    assert churn_s(replace(run, shapes=shapes, step_s=dearer)) == pytest.approx(0.002 * share)
    waits = tuple(0.002 * is_new for is_new in new)
    waiting = replace(run, shapes=shapes, step_s=dearer, phase_s={**run.phase_s, Phase.COMMUNICATION: waits})
    assert churn_s(waiting) == pytest.approx(0.0, abs=1e-9), "waiting for another process is no shape's"


def test_shape_churn_takes_off_what_chance_may_have_brought() -> None:
    run = firing("shape-churn")
    assert run.shapes is not None
    few = tuple(step for step in run.step_index if step not in run.step_index[:3])
    shapes = replace(run.shapes, new_steps=few)
    unsteady = tuple(0.01 if step in few else known for step, known in zip(run.step_index, KNOWN_S, strict=False))
    sure = tuple(0.01 if step in few else 0.006 for step in run.step_index)
    assert churn_s(replace(run, shapes=shapes, step_s=sure)) == pytest.approx(0.004 * len(few) / len(run.step_index))
    assert churn_s(replace(run, shapes=shapes, step_s=unsteady)) == 0.0


def test_launch_bound_names_the_line_of_the_forward_pass_that_takes_longest() -> None:
    line = HotLine(path=SCRIPT, line=12, function="f", text="y", phase=Phase.FORWARD, step_s=0.002)
    outside = replace(line, line=3, phase=Phase.OTHER, step_s=0.005)
    called = replace(line, line=5, inside=False, step_s=0.004)
    found = launch_bound.check(replace(firing("launch-bound"), hot_lines=(called, outside, line)))
    assert found is not None and "2.00 ms of that in line 12 of digits.py, f: y." in found.evidence


def test_launch_bound_names_the_line_with_most_calls_though_few_long_operators_take_longer() -> None:
    """A mask is filled in a loop before a transformer's layers are called."""
    run = firing("launch-bound")
    assert run.calls is not None
    forward = run.calls.phases[Phase.FORWARD]
    of_lines = {f"{SCRIPT}:12": 0.9 * forward.calls, f"{SCRIPT}:20": 0.1 * forward.calls}
    made = replace(forward, line_calls=of_lines, graph_calls=0.1 * forward.calls)
    facts = replace(run.calls, phases={**run.calls.phases, Phase.FORWARD: made})
    fill = HotLine(path=SCRIPT, line=12, function="mask", text="y", phase=Phase.FORWARD, step_s=0.002)
    layers = replace(fill, line=20, function="f", step_s=0.004)
    found = launch_bound.check(replace(run, calls=facts, hot_lines=(layers, fill)))
    assert found is not None and "in line 12 of digits.py, mask: y." in found.evidence
    assert f"; {0.9 * forward.calls:,.0f} of them take no part in gradients" in found.evidence


def test_launch_bound_tells_what_is_filled_anew_in_each_forward_pass_though_layers_take_longer() -> None:
    run = replace(healthy(), calls=calls(step_s=0.01, arithmetic=0.2, number=300))
    assert run.calls is not None and launch_bound.check(run) is None, "a sound network's own calls"
    seen = []
    for lines in ({"teacher": 60.0, "model": 20.0}, {"mask": 130.0, "model": 20.0}):
        made = replace(run.calls.phases[Phase.FORWARD], graph_calls=20, line_calls=lines)
        facts = replace(run.calls, phases={**run.calls.phases, Phase.FORWARD: made})
        seen.append(launch_bound.check(replace(run, calls=facts)))
    untrained, found = seen
    assert untrained is None, "a network that is not trained"
    assert found is not None and "130 of them take no part in gradients" in found.evidence
    assert found.cost_s == pytest.approx(130 * 3 * run.calls.call_s)


def test_what_is_filled_anew_in_each_forward_pass_takes_no_longer_than_its_lines() -> None:
    """To fill an element takes less than the call of a module, by which calls are priced."""
    run = replace(healthy(), calls=calls(step_s=0.01, arithmetic=0.2, number=300))
    assert run.calls is not None
    made = replace(run.calls.phases[Phase.FORWARD], graph_calls=20, line_calls={f"{SCRIPT}:12": 130.0})
    run = replace(run, calls=replace(run.calls, phases={**run.calls.phases, Phase.FORWARD: made}))
    fill = HotLine(path=SCRIPT, line=12, function="mask", text="y", phase=Phase.FORWARD, step_s=0.002)
    unpriced, priced = (launch_bound.check(replace(run, hot_lines=lines)) for lines in ((fill,), ()))
    assert priced is not None and unpriced is not None
    assert unpriced.cost_s == pytest.approx(min(0.002, priced.cost_s))
    assert launch_bound.check(replace(run, hot_lines=(replace(fill, step_s=0.0005),))) is None


def test_the_line_with_most_of_what_is_in_vain_is_named_though_another_has_the_costliest_operator() -> None:
    run = firing("same-each-step")
    first = sighting(SightingKind.UNCHANGED, cost_s=0.001, phase="forward", steps=5)
    parts = [replace(first, line=29, text="a + b", what=what, cost_s=0.0007) for what in ("aten::add", "aten::eye")]
    found = rules.ALL["same-each-step"](replace(run, sightings=(first, *parts)), None)
    assert found is not None and "most of it in line 29 of digits.py: a + b." in found.evidence


def test_sparse_as_dense_tells_one_hot_rows_from_others() -> None:
    run = firing("sparse-as-dense")
    told = {}
    for filled in (0.0005, 0.0009):
        seen = sighting(SightingKind.ZEROS, cost_s=0.002, phase="forward", filled=filled, shape="64 x 2000")
        found = rules.ALL["sparse-as-dense"](replace(run, sightings=(seen,)), None)
        assert found is not None
        told[filled] = found.evidence
    assert "where 1 of 2,000 elements of a row are not 0 (64 x 2000)" in told[0.0005]
    assert "`nn.Embedding`" in told[0.0005] and "`nn.Embedding`" not in told[0.0009]
    assert "where 2 of 2,000 elements" in told[0.0009]


def test_what_is_the_same_in_each_step_is_no_larger_part_of_it_than_of_the_time_in_operators() -> None:
    run = firing("same-each-step")
    assert run.calls is not None
    step_s, forward = run.mean_step_s(), run.calls.phases[Phase.FORWARD]
    held_up = replace(forward, inside_s=2 * step_s)
    busy = replace(run, calls=replace(run.calls, phases={**run.calls.phases, Phase.FORWARD: held_up}))
    seen = (sighting(SightingKind.UNCHANGED, cost_s=1.5 * step_s, phase="forward", steps=5),)
    found = rules.ALL["same-each-step"](replace(busy, sightings=seen))
    assert found is not None
    assert found.cost_s == pytest.approx(0.75 * (run.mean_phase_s(Phase.FORWARD) or 0.0))


def test_double_precision_tells_where_it_creeps_in() -> None:
    run = healthy()
    assert run.calls is not None
    loss = replace(run.calls.phases[Phase.FORWARD], double_s=0.004)
    crept = replace(run, calls=replace(run.calls, phases={Phase.BACKWARD: loss}))
    finding = double_precision.check(replace(crept, sightings=(sighting(SightingKind.PROMOTED, cost_s=0.001),)))
    assert finding is not None
    assert finding.cost_s == pytest.approx(0.002), "half of it"
    assert finding.evidence.endswith("shorter in float32; both meet in line 12 of digits.py: y = model(x).")
    unknown = double_precision.check(crept)
    assert unknown is not None and unknown.evidence.endswith("shorter in float32.")
    mixed = replace(run.optimizers[0], dtypes=("float32", "float64"))
    assert double_precision.check(replace(crept, optimizers=(mixed,))) is None, "somebody chose so"
    assert double_precision.check(run) is None


def test_wasted_forward_tells_a_validation_from_a_result_that_is_not_used() -> None:
    assert said("wasted-forward") == (
        "Forward passes whose result no gradient ever reaches, take 2.00 ms a step (20%): Net in line 12 of digits.py. "
        "Of that `no_grad` saves what recording for gradients takes; all of it goes only where nobody needs the "
        "result, or the pass that is trained on has it."
    )
    validating: tuple[Sighting, ...] = (sighting(SightingKind.WASTED_FORWARD, cost_s=0.002, evaluation=True),)
    finding = wasted_forward.check(replace(healthy(), sightings=validating))
    assert finding is not None
    assert finding.evidence.startswith("Forward passes of a validation have gradients on; it takes 2.00 ms a step (20%")
    assert finding.between_steps and not wasted_forward.check(firing("wasted-forward")).between_steps  # type: ignore[union-attr]


def test_wasted_forward_in_a_validation_is_bounded_by_all_of_it() -> None:
    run = replace(firing("wasted-forward"), num_validations=2, validation_s=0.0025 * len(healthy().step_s))
    seen = (sighting(SightingKind.WASTED_FORWARD, cost_s=0.002, evaluation=True),)
    finding = wasted_forward.check(replace(run, sightings=seen))
    assert finding is not None
    assert (finding.cost_s, finding.share) == pytest.approx((0.0025, 0.2)), "its batches and metrics go with its passes"


def test_what_costs_next_to_nothing_is_told_only_as_a_warning_of_another_kind() -> None:
    known, none = firing("shape-churn"), healthy().step_s
    assert [one.code for one in rules.check(replace(known, step_s=none))] == ["compute-bound"]
    assert known.shapes is not None
    unknown = replace(known, step_s=none, shapes=replace(known.shapes, new_steps=known.step_index))
    assert "shape-churn" not in [one.code for one in rules.check(unknown)]
    compiled = [one for one in rules.check(replace(unknown, compiled=True)) if one.code == "shape-churn"]
    assert [one.evidence for one in compiled] == [
        "The model met 48 different input shapes in 60 steps; too few came again to tell what new ones cost."
    ]
    untried = replace(healthy(), switches=SwitchFacts(anomaly_mode=True))
    assert "debug-left-on" in [one.code for one in rules.check(untried)]


def test_sync_bound_counts_waiting_only_as_far_as_the_device_idles() -> None:
    run = firing("sync-bound")
    assert run.operators is not None
    assert sync_bound.check(run) is not None
    busy = replace(run.operators, device_busy_s=0.0095)
    assert sync_bound.check(replace(run, operators=busy)) is None


def test_waiting_for_a_copy_to_the_device_is_told_by_transfer_bound_alone() -> None:
    run = firing("sync-bound")
    (wait,) = run.sightings
    copy = replace(wait, kind=SightingKind.BLOCKING_COPY)
    assert sync_bound.check(replace(run, sightings=(wait, copy))) is None
    assert sync_bound.check(replace(run, sightings=(wait, replace(copy, line=99)))) is not None


def test_launch_bound_on_a_device_counts_what_nothing_else_explains_of_its_idle_time() -> None:
    window = replace(device_window(step_s=0.01), device_busy_s=0.006, num_kernels=600)
    run = replace(run_of(forward=0.005, backward=0.005), device="NVIDIA H200", operators=window)
    finding = launch_bound.check(run)
    assert finding is not None
    assert finding.evidence == (
        "The device idles 4.00 ms (40% of each step) between 600 kernels because the host has not launched the next "
        "one."
    )
    starving = {Phase.INPUT: (0.003,) * len(run.step_s)}
    assert launch_bound.check(replace(run, device_phase_s=starving)) is None, "it idles for want of batches"


def test_too_small_for_gpu_compares_the_step_with_the_price_of_its_operators_on_a_cpu() -> None:
    run = firing("too-small-for-gpu")  # 120 calls of 4 us, 1 million operations, 1 MB
    finding = too_small_for_gpu.check(run)
    assert finding is not None
    assert finding.evidence == (
        "A step of 1 million operations takes 10.0 ms on NVIDIA H200; a CPU should need about 1.74 ms, 83% less."
    )
    assert run.operators is not None
    # 120 calls of 3 x 15.83 us, and 300 us for the rest, are 60% of the step.
    for dispatch_s, found in ((0.99 * 47.5e-6 / 3, True), (1.01 * 47.5e-6 / 3, False)):
        window = replace(run.operators, dispatch_s=dispatch_s)
        assert (too_small_for_gpu.check(replace(run, operators=window)) is not None) is found


@pytest.mark.parametrize(
    ("check", "phase", "least"),
    [
        (input_bound.check, "input", input_bound.MIN_SHARE),
        (optimizer_bound.check, "optimizer", optimizer_bound.MIN_SHARE),
        (host_bound.check, "other", host_bound.MIN_SHARE),
    ],
    ids=["input", "optimizer", "host"],
)
def test_the_threshold_is_where_it_is_said_to_be(check: rules.Rule, phase: str, least: float) -> None:
    def run_at(share: float) -> Run:
        return replace(run_of(**{"forward": 1 - share, phase: share}), optimizers=(optimizer(),))

    assert check(run_at(least * 1.001)) is not None
    assert check(run_at(least * 0.999)) is None


def side_by_side(*others: Neighbour, num_threads: int = 2) -> Run:
    use = CpuUse(usable_cores=2.0, main=0.9, others=0.0, neighbours=others)
    return replace(healthy(), cpu=use, num_threads=num_threads, what_ifs=())


def neighbour(*, threads: float = 2, ours: bool = True) -> Neighbour:
    return Neighbour(pid=7, name="main.py", threads=threads, ours=ours)


def test_oversubscription_counts_the_threads_of_all_processes_on_the_cores() -> None:
    finding = rules.check(side_by_side(neighbour()))[0]
    assert (finding.code, finding.environment) == ("thread-oversubscription", {"OMP_NUM_THREADS": "1"})
    assert finding.evidence == (
        "2 processes compute on 2 cores with 4 threads in all, this one with 2 (beside it: main.py). With 1 each, a "
        "step would be about 5.00 ms (50%) shorter."
    )
    codes = [found.code for found in rules.check(side_by_side(neighbour(threads=1), num_threads=1))]
    assert codes == ["compute-bound"], "one thread each is as few as there can be"


def test_oversubscription_by_other_programs_is_said_only_where_fewer_threads_were_timed() -> None:
    other = side_by_side(neighbour(threads=1.9, ours=False))
    assert thread_oversubscription.check(other) is None
    timed = WhatIf(setting="threads", now=2, other=1, now_s=0.01, other_s=0.006, agree=1.0)
    finding = thread_oversubscription.check(replace(other, what_ifs=(timed,)))
    assert finding is not None
    sentence = "With 1 each, a step took 6.00 ms in place of 10.0 ms (40% shorter), timed in turns."
    assert finding.evidence.endswith(sentence)
    busier = thread_oversubscription.check(replace(other, what_ifs=(timed,), step_s=tuple(3 * s for s in other.step_s)))
    assert busier is not None
    assert busier.evidence.endswith(sentence), "of one window, not of the steps that were recorded in another one"
    assert busier.share == pytest.approx(0.4)
    assert finding.try_levers == ("threads",)
    quiet = replace(side_by_side(neighbour(threads=0.6, ours=False)), what_ifs=(timed,))
    assert thread_oversubscription.check(quiet) is None, "one busy half of the time leaves room"


def test_other_programs_on_the_cores_hide_nothing_of_the_scripts_own_python() -> None:
    starved = replace(firing("input-bound"), num_threads=2)
    timed = WhatIf(setting="threads", now=2, other=1, now_s=0.01, other_s=0.002, agree=1.0)
    busy = CpuUse(usable_cores=2.0, main=0.4, others=0.0, runnable=1.9)
    for use in (side_by_side(neighbour(ours=False)).cpu, busy):
        told = [one.code for one in rules.check(replace(starved, cpu=use, what_ifs=(timed,)))]
        assert told[0] == "thread-oversubscription" and "input-bound" in told
    ours = side_by_side(neighbour()).cpu
    told = [one.code for one in rules.check(replace(starved, cpu=ours, what_ifs=(timed,)))]
    assert told[0] == "thread-oversubscription" and "input-bound" not in told


def test_oversubscription_of_a_command_s_own_processes_is_not_told_by_what_one_of_them_timed() -> None:
    timed = WhatIf(setting="threads", now=2, other=1, now_s=0.9, other_s=0.88, agree=1.0)
    alone = side_by_side(neighbour())
    assert rules.check(replace(alone, what_ifs=(timed,)))[0] == rules.check(alone)[0]
    together = replace(alone, what_ifs=(timed,), world_size=2)
    assert thread_oversubscription.check(together) is None, "ranks ask at the same step: it did not help"


def test_on_a_device_its_own_clock_says_what_the_model_and_the_optimizer_take() -> None:
    """The host launches in a tenth of the step, and waits for the rest of it."""
    shares = {Phase.FORWARD: 0.05, Phase.BACKWARD: 0.05, Phase.OPTIMIZER: 0.02, Phase.SYNC: 0.85}
    run = run_of_shares(shares, device="NVIDIA H200")
    assert compute_bound.check(run) is None
    model = {Phase.FORWARD: (0.003,) * 16, Phase.BACKWARD: (0.005,) * 16, Phase.OPTIMIZER: (0.001,) * 16}
    finding = compute_bound.check(replace(run, device_phase_s=model))
    assert finding is not None
    assert finding.cost_s == pytest.approx(0.008)
    assert "30% forward, 50% backward" in finding.evidence
    assert not {"threads", "malloc"} & set(finding.try_levers)
    update = {Phase.FORWARD: (0.001,) * 16, Phase.BACKWARD: (0.002,) * 16, Phase.OPTIMIZER: (0.006,) * 16}
    assert compute_bound.check(replace(run, device_phase_s=update)) is None
    slow = optimizer_bound.check(replace(run, device_phase_s=update))
    assert slow is not None
    assert slow.cost_s == pytest.approx(0.006)


def test_a_validation_is_told_by_its_part_of_all_time_and_one_alone_is_not() -> None:
    assert said("frequent-validation") == (
        "Forward passes of the trained model in evaluation mode take 5.00 ms a step, 50% of it: Net in line 12 of "
        "digits.py."
    )
    often = replace(healthy(), num_validations=4, validation_s=sum(healthy().step_s))
    finding = frequent_validation.check(often)
    assert finding is not None
    assert finding.evidence == (
        "One in 10 steps is followed by a stretch without training (validation, or sampling), 100 ms long, 50% of all "
        "time."
    )
    within = frequent_validation.check(firing("frequent-validation"))
    assert within is not None
    assert finding.between_steps and not within.between_steps
    assert finding.cost_s == pytest.approx(10e-3) and finding.share == pytest.approx(0.5)
    assert frequent_validation.check(replace(often, num_validations=1)) is None


def test_a_validation_that_waits_for_its_loader_says_so_and_what_starts_its_workers_anew() -> None:
    step_s = sum(healthy().step_s)
    workers = replace(loader(), num_workers=4, trained_on=False)
    often = replace(healthy(), num_validations=4, validation_s=step_s, validation_input_s=0.9 * step_s)
    kept = "; 90.0 ms of that in its loader"
    for loaders, told in (
        (
            (loader(), workers),
            f"{kept}, whose workers are started anew each time (`persistent_workers=True` keeps them).",
        ),
        ((loader(), replace(workers, persistent_workers=True)), f"{kept}."),
        ((loader(), replace(workers, num_workers=0)), f"{kept}."),
    ):
        found = frequent_validation.check(replace(often, loaders=loaders))
        assert found is not None and found.evidence.endswith(told)
    computes = frequent_validation.check(replace(often, loaders=(workers,), validation_input_s=0.2 * step_s))
    assert computes is not None and "loader" not in computes.evidence


def test_double_precision_costs_half_of_the_arithmetic_where_nothing_else_is_float64() -> None:
    run = firing("double-precision")
    finding = double_precision.check(run)
    assert finding is not None
    assert 0.3 < finding.share < 0.5
    assert "all that the model is given" in finding.evidence, "a cast of the model alone fails at its first product"
    both = (*run.optimizers, replace(run.optimizers[0], dtypes=("float32",)))
    assert double_precision.check(replace(run, optimizers=both)) is None


def test_padding_is_of_forward_and_backward_passes_and_packed_sequences_have_none() -> None:
    run = firing("padding")
    found = rules.ALL["padding"](run)
    assert found is not None and found.share == pytest.approx(0.75 * (0.36 + 0.56))
    assert "(32, 120)" in found.evidence and "30 of 120 columns" in found.evidence and "75%" in found.evidence
    assert run.operators is not None
    packs = Operator(name="aten::_pack_padded_sequence", per_step=1.0, self_s=1e-5)
    assert rules.ALL["padding"](replace(run, operators=replace(run.operators, operators=(packs,)))) is None
    (seen,) = run.sightings
    assert rules.ALL["padding"](replace(run, sightings=(replace(seen, detail={**seen.detail, "share": 0.05}),))) is None


def test_padding_of_compiled_code_is_told_with_what_one_shape_is_good_for() -> None:
    run = firing("padding")
    plain, compiled = (rules.ALL["padding"](replace(run, compiled=one)) for one in (run.compiled, not run.compiled))
    assert plain is not None and "want few shapes" not in plain.evidence
    assert compiled is not None and "want few shapes" in compiled.evidence


def test_a_dense_gradient_of_few_rows_costs_its_part_of_the_optimizer_and_its_filling() -> None:
    run, rule = firing("dense-embedding-gradients"), rules.ALL["dense-embedding-gradients"]
    found = rule(run)
    assert found is not None and found.share == pytest.approx(0.4 * 0.9 * 0.99 + 0.1)
    assert "1,200 of 120,000 rows of items (Embedding)" in found.evidence and "another training" in found.evidence
    most = replace(run, sightings=(table(cost_s=1e-3, touched=30_000),))
    small = replace(run, sightings=(table(cost_s=0.0, elements=100_000),))
    assert [rule(one) for one in (most, small, replace(run, compiled=True), replace(run, world_size=2))] == [None] * 4


@pytest.mark.parametrize(("name", "first"), [("SGD", "dense-embedding-gradients"), ("Adam", "optimizer-bound")])
def test_what_keeps_the_training_comes_before_what_makes_another_one(name: str, first: str) -> None:
    run = firing("dense-embedding-gradients")
    (one,) = run.optimizers
    own = replace(one, name=f"torch.optim.{name}", settings={"momentum": "0.0", "weight_decay": "0.0"})
    codes = [finding.code for finding in rules.check(replace(run, optimizers=(own,)))]
    assert codes[0] == first and ("optimizer-bound" in codes) is (name == "Adam")


@pytest.mark.parametrize(("momentum", "taken"), [("0.0", True), ("0.9", False)])
def test_plain_sgd_takes_sparse_gradients_as_they_are(momentum: str, *, taken: bool) -> None:
    run = firing("dense-embedding-gradients")
    (adam,) = run.optimizers
    sgd = replace(adam, name="torch.optim.sgd.SGD", settings={"momentum": momentum, "weight_decay": "0.0"})
    found = rules.ALL["dense-embedding-gradients"](replace(run, optimizers=(sgd,)))
    assert found is not None and ("takes it as it is" in found.evidence) is taken


def test_a_batch_of_single_samples_may_bring_all_but_the_first_pass_and_what_is_no_pass() -> None:
    """16 passes: of 96% that is not the optimizer's a sixteenth stays; the loader's part stays where a batch came."""
    run = firing("single-samples")
    found = rules.ALL["single-samples"](run)
    assert found is not None
    assert "16 times in each step in line 12 of digits.py: y = model(x)" in found.evidence
    assert found.at_most_share == pytest.approx(15 / 16 * (1 - 0.04 - 0.01))
    alone = replace(run, loaders=(replace(loader(), batch_size=1),))
    found = rules.ALL["single-samples"](alone)
    assert found is not None
    assert found.at_most_share == pytest.approx(15 / 16 * (1 - 0.04)), "a batch of one is loaded for each"


def test_few_single_samples_or_large_ones_are_none() -> None:
    run = firing("single-samples")
    assert rules.ALL["single-samples"](replace(run, sightings=(replace(run.sightings[0], per_step=7.0),))) is None
    assert rules.ALL["single-samples"](replace(run, calls=healthy().calls)) is None, "their arithmetic takes the time"


@pytest.mark.parametrize("text", ["(u,) = next(iter(unlabelled))", "for x, y in loader:"])
def test_an_epoch_that_is_begun_for_one_batch_is_named_and_goes_with_the_order_that_it_drops(text: str) -> None:
    run, step_s = firing("input-bound"), firing("input-bound").mean_step_s()
    drawn = replace(in_line(Phase.INPUT, inside=False, step_s=0.3 * step_s), text=text)
    dropped = replace(drawn, phase=Phase.OTHER, inside=True, step_s=0.05 * step_s)
    found = rules.ALL["input-bound"](replace(run, hot_lines=(drawn, dropped)))
    assert found is not None
    begins = "next" in text
    assert ("begins an epoch for one batch" in found.evidence) is begins
    lines = replace(run, hot_lines=(drawn, dropped))
    assert input_bound.explains(lines) == ({"host-bound"} if begins else set()), "one cause is told once"
    elsewhere = replace(dropped, line=99, step_s=0.1 * step_s)
    assert not input_bound.explains(replace(lines, hot_lines=(*lines.hot_lines, elsewhere)))
    assert found.at_most_share == pytest.approx(found.share + 0.05 if begins else 0.0)
    assert bool(found.try_levers) is not begins, "no lever takes that line away"
