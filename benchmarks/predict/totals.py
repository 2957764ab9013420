"""Models -> benchmarks/predict/totals.json: what one training step of each computes and moves, traced without data.

Needs torchvision (any build: only its Python files are used). Run again only when the tracer changes.
"""

import json
from pathlib import Path

import torch
from torch import nn

from hotlap.predict import trace

BATCH = 12
NAMES = [
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
    "mnasnet0_5",
    "mnasnet0_75",
    "mnasnet1_0",
    "mnasnet1_3",
    "mobilenet_v2",
    "resnet101",
    "resnet152",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnext101_32x8d",
    "resnext50_32x4d",
    "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0",
    "shufflenet_v2_x1_5",
    "shufflenet_v2_x2_0",
    "squeezenet1_0",
    "squeezenet1_1",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
    "wide_resnet101_2",
    "wide_resnet50_2",
]
# Layers, width, feed-forward width, heads, vocabulary of the transformers in neusight/model_*.json.
TRANSFORMERS = {
    "bert_large": (24, 1024, 4096, 16, 30522),
    "gpt2_large": (36, 1280, 5120, 20, 50257),
    "opt_13": (24, 2048, 8192, 32, 50272),
    "gpt3_xl": (24, 2048, 8192, 24, 50257),
}
# model, sequence, batch, training.
RUNS = (
    ("bert_large", 512, 16, False), ("bert_large", 512, 8, False), ("bert_large", 512, 2, True),
    ("bert_large", 512, 8, True), ("gpt2_large", 1024, 4, False), ("gpt2_large", 1024, 8, False),
    ("gpt2_large", 1024, 1, True), ("opt_13", 2048, 2, False), ("opt_13", 2048, 8, False),
)  # fmt: skip


class Block(nn.Module):
    """A transformer layer whose attention is written out, as it was in the measured models."""

    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


def summary(workload: trace.Workload, family: str) -> dict[str, object]:
    return {
        "family": family,
        "flop": workload.flop,
        "memory_bytes": workload.memory_bytes,
        "num_kernels": workload.num_kernels,
        "parameter_bytes": workload.parameter_bytes or 0.0,
        "batch_bytes": workload.batch_bytes or 0.0,
    }


def convolutional() -> dict[str, object]:
    import torchvision

    found = {}
    for name in NAMES:
        for precision, dtype in (("fp32", torch.float32), ("fp16", torch.float16)):
            with torch.device("meta"):
                model = getattr(torchvision.models, name)().to(dtype).train()
                images, labels = torch.empty(BATCH, 3, 224, 224, dtype=dtype), torch.empty(BATCH, dtype=torch.long)

            def step(model: nn.Module = model, images: torch.Tensor = images, labels: torch.Tensor = labels) -> None:
                model.zero_grad()
                nn.functional.cross_entropy(model(images), labels).backward()

            work = trace.record(step, parameters=model.parameters(), batch=[images])
            found[f"{name}/{precision}"] = summary(work, "".join(c for c in name.split("_")[0] if c.isalpha()))
    return found


def transformers() -> dict[str, object]:
    found = {}
    for name, length, batch, training in RUNS:
        layers, width, inner, heads, vocabulary = TRANSFORMERS[name]
        with torch.device("meta"):
            blocks = [Block(width, inner, heads) for _ in range(layers)]
            model = nn.Sequential(nn.Embedding(vocabulary, width), *blocks, nn.Linear(width, vocabulary, bias=False))
            tokens = torch.empty(batch, length, dtype=torch.long)

        def step(model: nn.Module = model, tokens: torch.Tensor = tokens, training: bool = training) -> None:
            if not training:
                with torch.no_grad():
                    model(tokens)
                return
            out = model(tokens)
            nn.functional.cross_entropy(out.flatten(0, 1), tokens.flatten()).backward()

        work = trace.record(step, parameters=model.parameters(), batch=[tokens])
        found[f"{name}/{length}/{batch}/{'train' if training else 'inf'}"] = summary(work, "transformer")
    return found


if __name__ == "__main__":
    path = Path(__file__).with_name("totals.json")
    path.write_text(json.dumps({**convolutional(), **transformers()}, indent=1) + "\n")
