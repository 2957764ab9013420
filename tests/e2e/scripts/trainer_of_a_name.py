# Hugging Face's Trainer, of the user's own class, with a model that has a name; it evaluates and saves.
import json
import sys
import tempfile

import torch
from safetensors import safe_open
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments


class Points(Dataset):
    def __init__(self, count):
        self.x = torch.randn(count, 8)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": self.x[index], "labels": self.x[index].sum()}


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x, labels):
        out = self.layers(x * torch.sigmoid(x))[:, 0]
        return {"loss": nn.functional.mse_loss(out, labels), "logits": out}


class Noting(Trainer):
    losses: list[float]

    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        self.losses.append(loss.item())
        return loss


def main():
    torch.manual_seed(0)
    model = Gate()
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=4,
        learning_rate=0.01,
        max_steps=60,
        eval_strategy="steps",
        eval_steps=20,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Noting(model=model, args=arguments, train_dataset=Points(400), eval_dataset=Points(8))
    trainer.losses = []
    trainer.train()
    trainer.save_model()
    with safe_open(f"{arguments.output_dir}/model.safetensors", "pt") as saved:
        keys = list(saved.keys())
    graphs = sys.modules["torch._dynamo.utils"].counters["stats"]["unique_graphs"]
    compiled = [name for name, part in model.named_modules() if part._compiled_call_impl]
    said = {"losses": trainer.losses, "compiled": compiled, "graphs": graphs, "keys": keys}
    print(json.dumps(said), file=sys.stderr)


if __name__ == "__main__":
    main()
