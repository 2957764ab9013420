"""The founding experiments as commands, one file each: what they are called, and which options each of them takes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

from hotlap.errors import UserError

if TYPE_CHECKING:
    from hotlap.lab.result import Result
    from hotlap.lab.settings import Settings

__all__ = ["EXPERIMENTS", "Experiment", "by_name"]

Doing = Callable[[str], None]
"""Told what is being done now, in a few words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One founding document as something that can be run."""

    name: str
    asks: str
    """One line for the list: the question that it answers."""
    title: str
    takes: frozenset[str] = frozenset()
    """Settings beside `quick` that change something here."""
    script: bool = False
    """It is about a script of the user's."""

    def run(self, settings: "Settings", doing: Doing) -> "Result":
        """Do it: minutes, or some seconds with `settings.quick`."""
        module = import_module(f"hotlap.lab.{self.name.replace('-', '_')}")
        found: Result = module.run(settings, doing)
        return replace(found, name=self.name, title=self.title, quick=settings.quick)


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="transfer",
        asks="from which size on does a matrix product gain by a GPU, copies counted?",
        title="A GPU is like a web service: requests are cheap, sending the data is not",
        takes=frozenset({"gpu"}),
    ),
    Experiment(
        name="launch-floor",
        asks="what does a call cost before it computes anything, and which model lies below that?",
        title="A call has a floor: below it a faster device changes nothing",
        takes=frozenset({"gpu"}),
    ),
    Experiment(
        name="pinning",
        asks="MNIST in five epochs: what do workers and pinned memory bring, and what do they cost?",
        title="Pinned memory and workers: letting the next batch travel while this one is trained",
        takes=frozenset({"gpu", "data", "budget", "html"}),
    ),
    Experiment(
        name="devices",
        asks="MNIST in ten epochs: from which model size on does a GPU pay?",
        title="The same training on a CPU and on a GPU: which model size turns the tables?",
        takes=frozenset({"gpu", "data", "html"}),
    ),
    Experiment(
        name="lorenz",
        asks="a neural ODE of the Lorenz system: how long does an iteration take, and with what?",
        title="A neural ODE of the Lorenz system: a thousand iterations of a network that hardly computes anything",
        takes=frozenset({"gpu", "budget", "html"}),
    ),
    Experiment(
        name="transformer",
        asks="why do the cores stay at 60%, what helps here, and what would other GPUs do?",
        title="What will be the bottleneck? A transformer on a CPU whose cores seem half idle",
        takes=frozenset({"gpu", "budget", "html"}),
    ),
    Experiment(
        name="checklist",
        asks="which of the usual recommendations helps my script, and by how much?",
        title="The usual recommendations, measured on your script",
        takes=frozenset({"gpu", "budget", "html"}),
        script=True,
    ),
    Experiment(
        name="link",
        asks="what would a slower link between machines cost a training by several processes?",
        title="A backward pass hides a link that is fast enough",
    ),
)


def by_name(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        UserError: there is none.
    """
    for experiment in EXPERIMENTS:
        if experiment.name == name:
            return experiment
    known = ", ".join(experiment.name for experiment in EXPERIMENTS)
    raise UserError(f"There is no experiment {name!r} in the lab. Known: {known}.")
