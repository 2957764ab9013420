"""Connections that break: one to a loader's worker is told from all others."""

import pytest

from hotlap.probe.cut_off import explain

LOADER = "/site-packages/torch/utils/data/dataloader.py"
SHARER = "/lib/python3/multiprocessing/resource_sharer.py"


def raised(error: Exception, *files: str) -> BaseException:
    """`error` as it comes out of code in these files, the outermost first."""

    def throw() -> None:
        raise error

    call = throw
    for name in reversed(files):
        scope = {"inner": call}
        exec(compile("def outer():\n    inner()\n", name, "exec"), scope)
        call = scope["outer"]
    with pytest.raises(type(error)) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("error", [ConnectionResetError(104, "reset"), EOFError(), FileNotFoundError("/tmp/socket")])
def test_a_tensor_that_cannot_be_fetched_means_a_lost_worker(error: Exception) -> None:
    assert "DataLoader worker" in explain(raised(error, LOADER, SHARER))


@pytest.mark.parametrize("files", [(), (LOADER,), (SHARER,), ("/home/me/download.py",)])
def test_another_connection_is_the_scripts_own_affair(files: tuple[str, ...]) -> None:
    assert explain(raised(ConnectionResetError(104, "reset"), *files)) == ""


def test_another_error_while_fetching_is_told_as_it_is() -> None:
    assert explain(raised(ValueError("no such item"), LOADER, SHARER)) == ""
