"""The options of each command, and nothing that takes time to import: for help, for completion, for pyproject.toml."""

import argparse
from collections.abc import Callable, Mapping, Sequence

from hotlap.cli.words import add_display, add_names, add_number, add_outputs, add_study, add_time, share

FAILS, INCONCLUSIVE, SLOWER = 10, 11, 12
"""Exit codes of check: the gate fails it; it, or the times, could not be decided; the same training, and slower."""

_TIMEOUT = "give up a run that makes no step for so long (default: {})"


def _add_runs(parser: argparse.ArgumentParser) -> None:
    """What every study asks of its runs."""
    add_time(parser, "--timeout", _TIMEOUT.format("120s"), default="120s")
    add_number(parser, "--seed", "seed for scripts that set none (default: 0)", default="0")


def _tune(parser: argparse.ArgumentParser) -> None:
    """make a training script faster, and prove it

    Finds where the time of a training step goes, tries what makes it faster, proves that the gain is real and training
    unharmed, and hands over a patch. The script is not changed; `hotlap apply` does that.

    hotlap tune train.py --lr 0.1
    hotlap tune --budget 15m --skip bf16-autocast -m package.train
    hotlap tune -- torchrun --nproc-per-node 1 train.py
    """
    parser.set_defaults(own_words=0, trains=True)
    add_time(
        parser,
        "--budget",
        "time for the whole study (default: 5m, or 9m where steps or starts are long, or the machine is noisy)",
    )
    _add_runs(parser)
    add_names(parser, "--levers", "try these only, separated by commas (hotlap levers: all)")
    add_names(parser, "--skip", "try all but these, separated by commas")
    add_names(parser, "--allow", "also try what changes the training itself; there is: batch-size")
    add_number(
        parser,
        "--total-steps",
        "steps that your training makes, for its total time (default: its own, where it ends or its loops say)",
        least=1,
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="most that caches, batches made ahead and workers may take, as in 8GB (default: 80%% of what is free)",
    )
    parser.add_argument(
        "--on",
        metavar="WHERE",
        help="run on nodes of a cluster, not here: slurm[:PARTITION] or ray[:ADDRESS]",
    )
    add_number(parser, "--nodes", "with --on: nodes at the same time (default: 1)", default="1", least=1)
    parser.add_argument("--fresh", action="store_true", help="start over; do not go on with an interrupted study")
    add_display(parser)
    add_outputs(parser)


def _apply(parser: argparse.ArgumentParser) -> None:
    """apply the patch that a study came to, or take it back

    Apply the patch that a study came to. A file that changed since it was measured is left alone.

    hotlap apply --diff
    hotlap apply
    hotlap apply train.py
    hotlap apply --revert
    hotlap apply --without hotlap
    """
    add_study(parser, "the newest here that has a patch")
    add_names(parser, "--only", "what these levers change, separated by commas")
    add_names(parser, "--without", 'all but what these levers change ("hotlap": all that import it)')
    parser.add_argument("--diff", action="store_true", help="print the patch, and change nothing")
    parser.add_argument("--revert", action="store_true", help="take the patch back: the files are as they were")


def _measure(parser: argparse.ArgumentParser) -> None:
    """find where the time of a training step goes

    Runs the script for some hundred steps and tells where their time goes, by phase, cause and line of the source, and
    what could be gained at best. It is not changed, and what it writes is thrown away. With --full the training is run
    to its end, for real, and only watched.

    hotlap measure train.py --lr 0.1
    hotlap measure --full --quiet train.py
    """
    parser.set_defaults(own_words=0, trains=True)
    add_number(parser, "--steps", "steps to record (default: 200)", least=8)
    add_number(parser, "--warmup", "steps that are made and thrown away first (default: 20)")
    _add_runs(parser)
    parser.add_argument("--quick", action="store_true", help="run the script once, with its own number of threads")
    parser.add_argument("--full", action="store_true", help="run the training to its end, for real, and watch it")
    add_display(parser)
    add_outputs(parser)


def _explain(parser: argparse.ArgumentParser) -> None:
    """explain a finding or a lever

    Explains a finding (input-bound, sync-bound, ...) or a lever (cached-dataset, ...): what it is, why, an example, and
    when it hurts.

    hotlap explain input-bound
    hotlap explain cached-dataset
    """
    parser.add_argument("name", metavar="NAME", help="of a finding or a lever; `all` lists them")


def _levers(parser: argparse.ArgumentParser) -> None:
    """list what is tried, and why some of it does not apply

    Lists all levers: what each promises about numbers, and what it does. Where a study was made here, also what came of
    each in it, and why those that were not tried do not apply.

    hotlap levers
    hotlap levers train-20260504-093000
    """
    add_study(parser)


def _read(parser: argparse.ArgumentParser) -> None:
    """tell what a recorded GPU trace says

    Reads traces that torch.profiler wrote (CUDA and ROCm; plain or gzip) and tells what each step waited for on the
    device, and what could be gained at best. Several traces are ranks of one job. No GPU is needed, and nothing is run.

    hotlap read trace.json.gz
    hotlap read --html report.html rank0.json rank1.json
    """
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="trace.json[.gz], a folder or a tar archive")
    add_outputs(parser)
    add_display(parser, progress=False)


def _check(parser: argparse.ArgumentParser) -> None:
    """judge an edit: does it train the same, and is it not slower?

    Runs two versions of a script in turns: is AFTER not slower than BEFORE, and does it train the same? AFTER is run in
    the place of BEFORE: with its folder, its name and the same arguments. Nothing is changed, and what the scripts
    write is thrown away.

    hotlap check train.py faster.py
    git show HEAD:train.py > before.py; hotlap check before.py train.py --epochs 3

    Exit code 0: the same training, and not slower. 10: the gate fails it. 11: inconclusive. 12: the same training, and
    slower.
    """
    parser.usage = "hotlap check [options] BEFORE AFTER [ARGS...]"
    for name in ("BEFORE", "AFTER"):
        parser.add_argument(name.lower(), metavar=name, help=f"the script {name.lower()} the edit")
    add_time(parser, "--budget", "time for all of it (default: 5m)", default="5m")
    parser.add_argument(
        "--max-regression", type=share, default="2%", metavar="PERCENT", help="how much slower it may be (default: 2%%)"
    )
    parser.add_argument(
        "--numerics",
        choices=("exact", "rounding", "statistical"),
        default="statistical",
        help="what AFTER must keep at least: every bit, all but rounding, or what another seed changes (the default)",
    )
    _add_runs(parser)
    add_display(parser)
    add_outputs(parser, "json")
    parser.set_defaults(own_words=2, trains=True)  # the two scripts


def _mcp(parser: argparse.ArgumentParser) -> None:
    """serve measure, tune, check and others to an MCP client

    A server of the Model Context Protocol over standard input and output. Its tools are measure, tune, check, apply and
    explain, with the options that an agent needs; the studies made are resources. It is started by the client, not by
    hand.

    hotlap mcp
    claude mcp add hotlap -- hotlap mcp

    It needs the package mcp: pip install 'mcp>=2'.
    """


def _completion(parser: argparse.ArgumentParser) -> None:
    """print what makes a shell complete commands, options and names

    Prints a script for the shell: commands, options, and names of levers and findings are completed.

    eval "$(hotlap completion bash)"  # in ~/.bashrc; zsh: in ~/.zshrc, behind compinit
    hotlap completion fish > ~/.config/fish/completions/hotlap.fish
    """
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    typed = parser.add_argument("typed", nargs=argparse.REMAINDER, default=[], help=argparse.SUPPRESS)
    typed.required = False  # or it is named where the shell is missing


def _show(parser: argparse.ArgumentParser) -> None:
    """show the report of a study again

    Shows a study that was made here: the newest, or the one that is named. Nothing is run.

    hotlap show
    hotlap show train.py
    hotlap show train-20260504-093000 --html report.html
    hotlap show --perfetto trace.json
    """
    add_study(parser)
    add_display(parser, progress=False)
    add_outputs(parser)
    parser.add_argument("--perfetto", metavar="PATH", help="write some steps there, as they went, for ui.perfetto.dev")


def _list(parser: argparse.ArgumentParser) -> None:
    """list the studies that were made here

    Lists the studies that were made in this folder, the newest first: when, of what, and what each came to.

    hotlap list
    """


def _clean(parser: argparse.ArgumentParser) -> None:
    """delete studies that were made here

    Deletes the studies that were made in this folder. One that is at work, and one whose patch is applied (it takes it
    back), stays.

    hotlap clean --check
    hotlap clean --keep 3
    """
    add_number(parser, "--keep", "leave the newest N (default: 0)", default="0")
    parser.add_argument("--check", action="store_true", help="say what would be done, and change nothing")


def _machine(parser: argparse.ArgumentParser) -> None:
    """what this machine can do at best, and what is wrong with it

    Measures matrix products, memory, operators and copies, and says what is wrong with the machine, what it costs, and
    how to fix it.

    hotlap machine
    hotlap machine --quick
    """
    parser.add_argument("--json", metavar="PATH", help="write it there; - is standard output")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter repeats: some seconds")
    add_display(parser, progress=False)


def _predict(parser: argparse.ArgumentParser) -> None:
    """predict the training on other GPUs, and on several

    Runs a few steps of the training here, traces one, and predicts a step on other hardware, with an 80% interval. The
    script is not changed, and ends after the traced step.

    hotlap predict train.py
    hotlap predict --gpu 4090,H100 --count 1,4 train.py
    """
    parser.usage = (
        "hotlap predict [options] (SCRIPT [ARGS...] | -m MODULE [ARGS...] | -- COMMAND...)\n"
        "       hotlap predict [options] --workload FILE"
    )
    parser.set_defaults(own_words=0, trains=True)
    add_names(parser, "--gpu", "GPUs to predict (default: nine; --list: all)", of="NAME,NAME")
    parser.add_argument("--count", default="1", metavar="N,N", help="numbers of GPUs, as 1,2,4 (default: 1)")
    parser.add_argument("--precision", metavar="NAME", help="fp32, fp32-ieee, tf32, fp16, bf16 (default: the script's)")
    parser.add_argument("--interconnect", choices=("nvlink", "pcie", "pcie-no-p2p"), help="how the GPUs are connected")
    parser.add_argument("--workload", metavar="FILE", help="use a traced step that was saved, instead of a script")
    parser.add_argument("--save-workload", metavar="FILE", help="keep the traced step")
    parser.add_argument("--measured-on", metavar="NAME", help="a GPU where this step was measured")
    add_time(parser, "--measured-step", "its time there: narrows the intervals")
    add_time(parser, "--timeout", _TIMEOUT.format("10m"), default="10m")
    parser.add_argument("--json", metavar="PATH", help="write the predictions there; - is standard output")
    parser.add_argument("--list", action="store_true", help="show the names of all devices, and end")
    add_display(parser, progress=False)


def _lab(parser: argparse.ArgumentParser) -> None:
    """the founding experiments on this machine; without a name: which there are

    Repeats one of the experiments that hotlap was founded on, on this machine, and explains what came out. Where no GPU
    is here, its figures are predicted, with intervals, and marked. Without NAME: the list.

    hotlap lab
    hotlap lab pinning --quick

    What stands behind SCRIPT goes to the training as it is.
    """
    parser.usage = "hotlap lab [NAME [options] [SCRIPT [ARGS...]]]"
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the experiment")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer: under a minute on a quiet machine")
    add_names(parser, "--gpu", "GPUs to predict", of="NAME,NAME")
    add_time(parser, "--budget", "pinning, lorenz, transformer, checklist: time for what is tried")
    parser.add_argument("--json", metavar="PATH", help="write the result there; - is standard output")
    parser.add_argument("--html", metavar="PATH", help="write the report page of the study there")
    add_display(parser, progress=False)
    parser.set_defaults(own_words=1)  # the experiment


COMMANDS: Mapping[str, Sequence[Callable[[argparse.ArgumentParser], None]]] = {
    "make a training faster": (_tune, _apply),
    "see where its time goes": (_measure, _explain, _levers, _read),
    "judge changes, in CI as well": (_check,),
    "for agents and shells": (_mcp, _completion),
    "studies made here": (_show, _list, _clean),
    "hardware": (_machine, _predict, _lab),
}
"""What they are for -> functions that add the options of the command that they are named after."""
