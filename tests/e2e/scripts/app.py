# Like an application with a configuration framework: a decorator reads the words, moves to a folder of its own, calls.
import argparse
import logging
import os
import signal
import sys
import tempfile
from functools import wraps
from pathlib import Path

import torch
from torch import nn


def configured(main):
    @wraps(main)
    def run():
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", type=float, default=0.1)
        parser.add_argument("--leave", type=int, default=0)
        parser.add_argument("overrides", nargs="*")
        known = parser.parse_args()
        config = {"steps": 300, "width": 4}
        for word in known.overrides:
            key, value = word.split("=")
            config[key] = type(config[key])(value)
        os.chdir(tempfile.mkdtemp())
        logging.basicConfig(filename="app.log", level=logging.INFO)
        main(config, known)

    return run


@configured
def main(config, known):
    interrupts = []
    signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    model = nn.Linear(config["width"], 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=known.lr)
    for step in range(config["steps"]):
        optimizer.zero_grad()
        model(torch.randn(8, config["width"])).mean().backward()
        optimizer.step()
        if step == 12:
            os.kill(os.getpid(), signal.SIGINT)
        if step == 14:
            assert interrupts == [signal.SIGINT]
            logging.info("still here")
            assert "still here" in Path("app.log").read_text()
    if known.leave:
        sys.exit(known.leave)


main()
