"""launch-floor: the floor of a call, and what it means for a network of tiny layers."""

from hotlap.lab import Settings, launch_floor, products
from hotlap.lab.result import Quantity, Result
from tests.unit.lab import samples


def told(*, gpu: str | None = None) -> Result:
    answers = [samples.floor_answer(gpu=gpu)] * 3
    return launch_floor.tell(products.told(launch_floor.SHAPES, answers, Settings()))


def column(result: Result, name: str) -> list[Quantity]:
    (table,) = result.tables
    at = table.columns.index(name)
    return [cell for row in table.rows if isinstance(cell := row[at], Quantity)]


def test_sizes_increase_and_the_founding_shapes_are_among_them() -> None:
    for shapes in (launch_floor.SHAPES, launch_floor.QUICK_SHAPES):
        sizes = [rows * columns for rows, columns, _ in shapes]
        assert sizes == sorted(sizes)
        assert {(100, 3, 1), (100, 100, 1)} <= set(shapes)


def test_the_floor_is_that_of_the_smallest_call() -> None:
    result = told(gpu="Some GPU")
    assert "takes 0.500 us (0.490 to 0.510 us) in NumPy" in result.story[0]
    assert "8.0" in result.story[0]


def test_the_gpu_is_ahead_from_the_size_at_which_it_overtakes_the_fastest_way_of_the_cpu() -> None:
    # 0.5 us + 2 n / 5e9 meets 8 us on the GPU at n = 19,000: of those tried 65,536 is the first above.
    assert "From a matrix of 65,536 numbers on" in told(gpu="Some GPU").story[1]


def test_a_gpu_that_is_not_here_is_predicted_at_every_size() -> None:
    result = told()
    cells = column(result, products.GPU)
    assert len(cells) == len(launch_floor.SHAPES)
    assert all(cell.predicted for cell in cells)
    assert not any(cell.predicted for cell in column(result, products.TORCH))
