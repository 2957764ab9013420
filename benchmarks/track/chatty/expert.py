"""The chatty loop by hand: the same figures, kept as tensors and said once in fifty steps."""

import argparse
import sys
import time

import torch
from torch import nn
from train import BATCH, EPOCHS, load, network

SAID_EVERY = 50


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)
    images_all, target_all = (part.to(device) for part in load(args.data))
    model = network().to(device)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9, fused=True)
    for epoch in range(EPOCHS):
        begun = time.perf_counter()
        loss_sum, top5_sum = torch.zeros((), device=device), torch.zeros((), device=device)
        confusion = torch.zeros(100, device=device)
        batches = torch.randperm(len(images_all), device=device).split(BATCH)
        seen = 0
        for step, batch in enumerate(batches):
            target = target_all[batch]
            output = model(images_all[batch])
            loss = nn.functional.cross_entropy(output, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                seen += len(batch)
                loss_sum += loss * len(batch)
                top5_sum += (output.topk(5, 1).indices == target[:, None]).sum()
                confusion += torch.bincount(target * 10 + output.argmax(1), minlength=100)
                if step % SAID_EVERY == 0:
                    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters]).item()
                    table = confusion.view(10, 10)
                    worst = (table.diag() / table.sum(1).clamp(min=1)).argmin().item()
                    print(
                        f"[{epoch}][{step}/{len(batches)}] loss {loss_sum.item() / seen:.4f} "
                        f"top1 {100 * table.diag().sum().item() / seen:.2f} top5 {100 * top5_sum.item() / seen:.2f} "
                        f"|g| {norm:.3f} worst class {worst}",
                        file=sys.stderr,
                    )
        mean = loss_sum.item() / seen
        seconds = time.perf_counter() - begun
        print(f"epoch {epoch + 1}: loss {mean:.4f}, {seen} samples in {seconds:.3f} s")


if __name__ == "__main__":
    main()
