"""pinning (F2): MNIST in five epochs: what do workers and pinned memory bring, and what do they cost?"""

from pathlib import Path

from hotlap import machine
from hotlap.lab import Doing, Settings
from hotlap.lab.result import Quantity, Result, in_words
from hotlap.lab.studies import BATCH_SIZE, MNIST_ITEMS, PATTERNS, gain, of_lab
from hotlap.record import Study
from hotlap.tune.checking import Checked

TAKES = ("budget", "html")

NUM_EPOCHS = 5
# So few that starting the workers of each epoch is what takes the time: the article's caveat.
SMALL = 2_000
BUDGET_S = 150.0
# For each check of the article's copy.
CHECK_S = 60.0


def run(settings: Settings, doing: Doing) -> Result:
    """Tune the unchanged loop, then check the article's changes against it; with --quick only the first."""
    workers = max(1, min(4, int(machine.look().usable_cores)))
    items = SMALL if settings.quick else MNIST_ITEMS
    article = small = None
    with of_lab("mnist.py", doing) as script:
        bench = script.asked("--epochs", str(NUM_EPOCHS))
        whole = bench.asked("--items", str(items), total_steps=num_steps(items))
        profilers = ("switches", "shapes", "modules")
        study = whole.studied(quick=True, budget_s=settings.tries_s(BUDGET_S), profilers=profilers)
        if not settings.quick:
            path = Path(script.words[0])
            changed = {str(path): with_changes(path.read_text(), workers)}
            article = whole.checked(changed, budget_s=CHECK_S)
            small = bench.asked("--items", str(SMALL)).checked(changed, budget_s=CHECK_S)
    return tell(study, article, small, workers=workers, items=items)


def num_steps(items: int) -> int:
    """Of the whole training."""
    return NUM_EPOCHS * -(-items // BATCH_SIZE)


def with_changes(text: str, workers: int) -> str:
    """The script with the article's two changes: workers with pinned memory, and copies that are not waited for."""
    text = text.replace("shuffle=True)", f"shuffle=True, num_workers={workers}, pin_memory=True)")
    return text.replace(
        "x.to(device), y.to(device)", "x.to(device, non_blocking=True), y.to(device, non_blocking=True)"
    )


def tell(study: Study, article: Checked | None, small: Checked | None, *, workers: int, items: int) -> Result:
    """The numbers, and what they mean. `article`, `small`: its changes on all images and on few; None: not compared."""
    base = study.baseline[0]
    took = Quantity.median(base.step_s).times(num_steps(items))
    notes = [
        PATTERNS,
        "Ratios are of whole trainings, starts of epochs included, by processes that take turns, three of each.",
    ]
    pinned = "" if base.device == "cpu" else " and pinned memory"
    if not pinned:
        notes.append("Without a GPU nothing is pinned: of the article's changes only the workers have an effect here.")
    if article is not None:
        notes.append(f"`hotlap check` says of the article's changes: {article.why}")
    return Result(
        story=(
            f"{NUM_EPOCHS} epochs of {items:,} images take {took} here, by the steps of the baseline. With {workers} "
            f"workers{pinned} the whole training is {_in_all(article)}. (The article: 43 s, and under 10 s with these "
            "two changes, so 4.3x.)",
            gain(study),
            f"On {SMALL:,} images the article's changes are {_in_all(small)}: workers are started anew in each epoch.",
        ),
        notes=tuple(notes),
        study=study,
    )


def _in_all(one: Checked | None) -> str:
    return in_words(None if one is None else one.total)
