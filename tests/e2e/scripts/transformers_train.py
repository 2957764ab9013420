# Hugging Face's Trainer on a tiny model that is made from a configuration; nothing is downloaded.
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, index):
        tokens = torch.arange(index, index + 16) % 50
        return {"input_ids": tokens, "labels": tokens}


if __name__ == "__main__":
    config = GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=200,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=Tokens()).train()
