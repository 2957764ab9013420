"""The language model by hand, still with a Trainer: chunks encoded once, whole batches, fused AdamW, few logs."""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from train import Chunks, SayEpochs, arguments, load, model
from transformers import Trainer, set_seed


class Encoded(Dataset):
    """All chunks as one tensor; a batch is one gather (`__getitems__` is what a loader asks for first)."""

    def __init__(self, chunks):
        codes = {letter: k for k, letter in enumerate(chunks.letters)}
        self.ids = torch.tensor([codes[letter] for letter in chunks.text]).view(len(chunks), -1)

    def __len__(self):
        return len(self.ids)

    def __getitems__(self, indices):
        return self.ids[indices]


def collate(rows):
    """Of a whole batch nothing is left to do; some versions of the Trainer ask for the rows one by one."""
    ids = rows if isinstance(rows, torch.Tensor) else torch.stack(rows)
    return {"input_ids": ids, "labels": ids}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    set_seed(0)
    chunks = Chunks(load(args.data))
    on_gpu = torch.cuda.is_available()
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            model=model(len(chunks.letters)),
            args=arguments(folder, logging_steps=100, optim="adamw_torch_fused", bf16=on_gpu, torch_compile=on_gpu),
            train_dataset=Encoded(chunks),
            data_collator=collate,
            callbacks=[SayEpochs()],
        ).train()


if __name__ == "__main__":
    main()
