"""What the peers advise, as edits of scripts: Accelerate, flags of Lightning and of the Trainer, `torch.compile`.

`python recipes.py NAME RECIPE` prints a script under a recipe. Each edit has to fit exactly once, so that a script that
changed is noticed.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
Edits = tuple[tuple[str, str], ...]

_DEVICE = 'device = "cuda" if torch.cuda.is_available() else "cpu"'
_TORCH_DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
_ACCELERATOR = 'accelerator = Accelerator(mixed_precision="bf16")\n    device = accelerator.device'
_LOOP = "    for epoch in range(EPOCHS):\n"


def _accelerate(device: str, names: str = "model, optimizer, loader", loop: str = _LOOP) -> Edits:
    """`prepare`, mixed precision, and the backward pass by the accelerator."""
    return (
        ("import torch\n", "import torch\nfrom accelerate import Accelerator\n"),
        (device, _ACCELERATOR),
        (loop, f"    {names} = accelerator.prepare({names})\n{loop}"),
    )


_BACKWARD = (("loss.backward()", "accelerator.backward(loss)"),)


def _compile(after: str, *names: str) -> Edits:
    """`torch.compile` of each network, behind the line that made it."""
    return ((after, after + "".join(f"\n    {name} = torch.compile({name})" for name in names or ("model",))),)


RECIPES: Mapping[str, Mapping[str, Edits]] = {
    "digits": {
        "accelerate": _accelerate(_DEVICE) + _BACKWARD,
        "compile": _compile("nn.Linear(128, 10)).to(device)"),
    },
    "clothing": {
        "accelerate": _accelerate(_TORCH_DEVICE) + _BACKWARD,
        "compile": _compile("model = Net(len(images.classes)).to(device)"),
    },
    "transformer": {
        "accelerate": _accelerate(_DEVICE)
        + _BACKWARD
        + (('num_layers=32 if device == "cuda" else 4', 'num_layers=32 if device.type == "cuda" else 4'),),
        "compile": _compile('model = Model(num_layers=32 if device == "cuda" else 4).to(device)'),
    },
    "characters": {
        "accelerate": _accelerate(_DEVICE, "model, optimizer", "    for part in range(ROUNDS):\n")
        + _BACKWARD
        + (("torch.nn.utils.clip_grad_norm_(", "accelerator.clip_grad_norm_("),),
        "compile": _compile("model = GPT(len(chars)).to(device)"),
    },
    "tabular": {
        "accelerate": _accelerate(_TORCH_DEVICE) + _BACKWARD,
        "compile": _compile("model = perceptron().to(device)"),
    },
    "recurrent": {
        "accelerate": _accelerate(_DEVICE)
        + _BACKWARD
        + (("nn.utils.clip_grad_norm_(", "accelerator.clip_grad_norm_("),),
        "compile": _compile("model = Model(len(lines.letters)).to(device)"),
    },
    "gan": {
        "accelerate": (
            *_accelerate(_DEVICE, "generator, discriminator, optimizer_g, optimizer_d, loader"),
            ("g_loss.backward()", "accelerator.backward(g_loss)"),
            ("d_loss.backward()", "accelerator.backward(d_loss)"),
            # Its documentation: binary cross-entropy is not safe under autocast.
            (
                "adversarial_loss(discriminator(generated), valid)",
                "adversarial_loss(discriminator(generated).float(), valid)",
            ),
            ("adversarial_loss(discriminator(real), valid)", "adversarial_loss(discriminator(real).float(), valid)"),
            (
                "adversarial_loss(discriminator(generated.detach()), fake)",
                "adversarial_loss(discriminator(generated.detach()).float(), fake)",
            ),
        ),
        "compile": _compile(
            "generator, discriminator = (net.to(device) for net in networks())", "generator", "discriminator"
        ),
    },
    "chatty": {
        "accelerate": _accelerate(_DEVICE) + _BACKWARD,
        "compile": _compile("model = network().to(device)"),
    },
    "lightning_conv": {
        "flags": (("logger=False,", 'logger=False, precision="bf16-mixed", benchmark=True,'),),
        "compile": (("trainer.fit(LitNet(), loader)", "trainer.fit(torch.compile(LitNet()), loader)"),),
    },
    "trainer": {
        "flags": (
            (
                'report_to="none",',
                'report_to="none", bf16=True, use_cpu=not torch.cuda.is_available(), optim="adamw_torch_fused", '
                "dataloader_num_workers=2,",
            ),
        ),
        "compile": (('report_to="none",', 'report_to="none", torch_compile=True,'),),
    },
}


def script(name: str, recipe: str) -> str:
    """The script as written, under a recipe.

    Raises:
        ValueError: an edit does not fit exactly once.
    """
    text = (HERE / name / "train.py").read_text(encoding="utf-8")
    for old, new in RECIPES[name][recipe]:
        if text.count(old) != 1:
            raise ValueError(f"{name}/train.py has {text.count(old)} times {old!r}; {recipe} needs it once.")
        text = text.replace(old, new)
    return text


if __name__ == "__main__":
    print(script(sys.argv[1], sys.argv[2]), end="")
