"""A small language model made from a configuration, trained by a Hugging Face Trainer."""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

CONTEXT, BATCH, EPOCHS, NUM_CHUNKS = 64, 16, 4, 1600


def load(folder):
    path = Path(folder) / "tinyshakespeare" / "input.txt"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    from pydoc_data import topics

    print(f"{path} is missing (say where the data are with --data DIR); using the texts of Python's help()")
    return "\n".join(topics.topics.values())


class Chunks(Dataset):
    def __init__(self, text):
        self.text = text[: NUM_CHUNKS * CONTEXT]
        self.letters = sorted(set(self.text))

    def __len__(self):
        return len(self.text) // CONTEXT

    def __getitem__(self, index):
        chunk = self.text[index * CONTEXT : (index + 1) * CONTEXT]
        ids = [self.letters.index(letter) for letter in chunk]
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(ids)}


def model(num_letters):
    config = GPT2Config(
        vocab_size=num_letters, n_positions=CONTEXT, n_embd=128, n_layer=3, n_head=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


class SayEpochs(TrainerCallback):
    def on_epoch_begin(self, args, state, control, **kwargs):
        self.begun = time.perf_counter()

    def on_epoch_end(self, args, state, control, train_dataloader=None, **kwargs):
        seconds = time.perf_counter() - self.begun
        loss = next((entry["loss"] for entry in reversed(state.log_history) if "loss" in entry), float("nan"))
        count = len(train_dataloader.dataset)
        print(f"epoch {round(state.epoch)}: loss {float(loss):.4f}, {count} samples in {seconds:.3f} s")


def arguments(folder, **more):
    settings = {"logging_steps": 10} | more
    return TrainingArguments(
        output_dir=folder, num_train_epochs=EPOCHS, per_device_train_batch_size=BATCH, learning_rate=1e-3,
        save_strategy="no", report_to="none", disable_tqdm=True, seed=0, **settings,
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    set_seed(0)
    chunks = Chunks(load(args.data))
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            model=model(len(chunks.letters)), args=arguments(folder), train_dataset=chunks, callbacks=[SayEpochs()]
        ).train()


if __name__ == "__main__":
    main()
