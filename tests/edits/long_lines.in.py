arguments = TrainingArguments(
    output_dir="out", per_device_train_batch_size=8, num_train_epochs=1, report_to=[], logging_steps=10, seed=1,
    save_strategy="no", learning_rate=2e-5, weight_decay=0.01, lr_scheduler_type="linear", warmup_ratio=0.05)
loader = DataLoader(train_set, batch_size=1024, shuffle=True, drop_last=True, collate_fn=collate_pairs)
short = DataLoader(train_set, shuffle=True)
# edit: add TrainingArguments dataloader_num_workers=2
# edit: add TrainingArguments dataloader_prefetch_factor=4
# edit: add DataLoader num_workers=2
# edit: add DataLoader persistent_workers=True
