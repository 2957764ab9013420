# Fine-tuning as the examples of transformers have it, with the imports in alphabetical order. Nothing is downloaded.
import math

import datasets
import torch
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    default_data_collator,
    get_scheduler,
    set_seed,
)

set_seed(0)
datasets.disable_progress_bars()
raw = Dataset.from_dict(
    {
        "input_ids": [[(i * j) % 50 for j in range(16)] for i in range(256)],
        "labels": [i % 2 for i in range(256)],
    }
)
train_dataset = raw.map(lambda example: {"attention_mask": [1] * len(example["input_ids"])})
train_dataloader = DataLoader(train_dataset, shuffle=True, collate_fn=default_data_collator, batch_size=8)
config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=2
)
model = BertForSequenceClassification(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
epochs = 3
steps = epochs * math.ceil(len(train_dataloader))
lr_scheduler = get_scheduler("linear", optimizer=optimizer, num_warmup_steps=0, num_training_steps=steps)
for _ in range(epochs):
    model.train()
    for batch in train_dataloader:
        outputs = model(**batch)
        outputs.loss.backward()
        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad()
