"""Copies of batches to the device are found, wherever the script hands a batch on to."""

import textwrap

import pytest

from hotlap.levers.pin_and_overlap import copies
from hotlap.source import Script, parsed

FORMS = {
    "a tuple": """
        for x, y in loader:
            x, y = x.to(device), y.to(device)
        """,
    "one after the other": """
        for index, (x, y) in enumerate(tqdm(loader)):
            x = x.to(device)
            y = y.cuda()
        """,
    "a dict": """
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            other = {k: batch[k].cuda() for k in ("x", "y")}
        """,
    "a list": """
        for batch in loader:
            x, y = [t.to(device) for t in batch]
            z = list(map(lambda t: t.to(device), batch))
        """,
    "parts of a batch": """
        for batch in loader:
            loss = model(batch["x"].to(device), batch.y.float().to(device))
        """,
    "with a dtype": """
        for x, y in loader:
            x, y = x.to(device=device, dtype=torch.float32), y.to(device, torch.long)
        """,
    "by the index of a card": """
        for x, y in loader:
            f(x.cuda(args.gpu), y.to(local_rank))
        """,
    "next": """
        batches = iter(loader)
        while True:
            x, y = next(batches)
            f(x.to("cuda"), y.to(torch.device("cuda:0")))
        """,
    "a function": """
        def train_one_epoch(model, loader, device):
            for x, y in loader:
                f(x.to(device), y.to(device))

        train_one_epoch(model, loader, device)
        """,
    "a function in a function, by name": """
        def move(batch, to_device):
            return [part.to(to_device) for part in batch], batch[0].to(to_device)

        def epoch(batches=None):
            for batch in batches:
                move(batch, device)

        epoch(batches=loader)
        """,
    "a class": """
        class Trainer:
            def __init__(self, model, batches):
                self.model, self.batches = model.to(device), batches

            def fit(self):
                for batch in self.batches:
                    self.step(batch)

            def step(self, batch):
                return self.model(batch[0].to(self.device)) - batch[1].to(self.device)

        Trainer(model, loader).fit()
        """,
    "a function that makes loaders": """
        def loaders():
            return loader, None

        train, test = loaders()
        for x, y in train:
            f(x.to(device), y.to(device))
        """,
    "a tree of tensors": """
        for batch in loader:
            x, y = tree_map(lambda t: t.to(device), batch), batch.y.to(device)
        """,
    "a recursive function": """
        def move(data):
            if isinstance(data, list):
                return [move(part) for part in data]
            if isinstance(data, Graph):
                return data.to("cuda")
            return data.to(device)

        for batch in loader:
            move(batch)
        """,
    "accelerate": """
        model, loader = accelerator.prepare(model, loader)
        for x, y in loader:
            f(x.to(accelerator.device), y.to(x.device))
        """,
    "one per phase": """
        loaders = {"train": loader, "test": other}
        for phase in ("train", "test"):
            for x, y in loaders[phase]:
                f(x.to(device), y.to(device))
        """,
}


def script(body: str) -> Script:
    text = f"loader = DataLoader(data, 64)\n{textwrap.dedent(body)}"
    found = parsed("train.py", "", text)
    assert found is not None
    return found


def found(body: str) -> list[str]:
    one = script(body)
    return [one.code(call) for _, call in copies([one])]


@pytest.mark.parametrize("form", FORMS)
def test_the_copies_of_both_parts_of_a_batch_are_found(form: str) -> None:
    assert len(found(FORMS[form])) == 2


@pytest.mark.parametrize(
    "body",
    [
        "model.to(device)",
        "for x, y in loader:\n    model.to(device)",
        "for x, y in loader:\n    loss = model(x)\n    loss.to(device)",  # it is on the device already
        "for x, y in loader:\n    x.to('cpu'), x.cpu(), x.to(torch.float64), x.to(dtype=y.dtype)",
        "for x, y in loader:\n    x.to(cpu_device), x.to(torch.device('cpu'))",
        "for x, y in loader:\n    x.to(device, torch.float32, True), x.cuda(0, True), x.to(**how)",
        "class Trainer:\n    def __init__(self, model):\n        self.model = model.to(device)",
        "table = torch.zeros(9)\nfor x in loader:\n    table.to(device)",
    ],
)
def test_what_is_no_copy_of_a_batch_is_left_alone(body: str) -> None:
    assert found(body) == []
