"""launch-floor: the floor of a call, and what it means for a network of tiny layers."""

from dataclasses import replace

from hotlap.lab import launch_floor
from hotlap.lab.result import Quantity, Result, Table
from hotlap.lab.settings import Settings
from tests.unit.lab import samples


def told(*, gpu: str | None = None) -> Result:
    return launch_floor.tell(launch_floor.SIDES, [samples.floor_answer(gpu=gpu)] * 3, Settings())


def column(table: Table, name: str) -> list[Quantity]:
    at = table.columns.index(name)
    return [cell for row in table.rows if isinstance(cell := row[at], Quantity)]


def test_the_founding_shapes_come_first() -> None:
    table = told().tables[0]
    assert table.columns[1:] == ("100 x 3", "100 x 100")
    assert [row[0] for row in table.rows] == list(launch_floor.ALL)


def test_the_floor_is_that_of_the_smallest_call() -> None:
    result = told(gpu="Some GPU")
    assert "takes 0.500 us (0.490 us to 0.510 us) in NumPy" in result.story[0]
    assert "8.0" in result.story[0]


def test_a_gpu_that_is_not_here_is_predicted_at_every_size() -> None:
    sweep = told().tables[1]
    for name in (launch_floor.GPU, launch_floor.GRAPH):
        cells = column(sweep, name)
        assert len(cells) == len(launch_floor.SIDES)
        assert all(cell.predicted for cell in cells)
    assert not any(cell.predicted for cell in column(sweep, launch_floor.TORCH))


def test_a_graph_is_no_slower_than_single_calls() -> None:
    sweep = told().tables[1]
    single, graph = column(sweep, launch_floor.GPU), column(sweep, launch_floor.GRAPH)
    assert all(b.value <= a.value * 1.001 for a, b in zip(single, graph, strict=True))


def test_the_step_of_the_network_is_told_beside_torch() -> None:
    result = told(gpu="Some GPU")
    assert "200 us (196 us to 204 us) for one of the question's network" in result.story[2]
    ratio = column(result.tables[2], "as fast as torch on the CPU")[0]
    assert ratio.low is not None and ratio.low < 40 < (ratio.high or 0)
    assert "600 us" in result.story[2]


def test_without_a_native_core_its_column_is_left_out_and_the_reason_told() -> None:
    answer = samples.floor_answer()
    without = replace(
        answer,
        times={way: times for way, times in answer.times.items() if way != launch_floor.SMALL},
        steps={way: times for way, times in answer.steps.items() if way != launch_floor.SMALL_STEP},
        not_native="No compiler was found.",
    )
    result = launch_floor.tell(launch_floor.SIDES, [without], Settings())
    assert launch_floor.SMALL not in result.tables[1].columns
    assert any("No compiler was found." in note for note in result.notes)
