"""Edits as people make them to a training by hand, for speed or by mistake: those that harm it, and those that do not.

Each is told by what it replaces in a script of `benchmarks/faults/edited`. (`injected.py` hides its harms below the
script; here they stand in it, as in a pull request.)
"""

from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).with_name("edited")
EVERY = ("exact", "rounding", "statistical")
ROUNDING, STATISTICAL = EVERY[1:], EVERY[2:]


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit of one script."""

    script: str
    title: str
    is_harm: bool
    changes: tuple[tuple[str, str], ...]
    """(what is there, what is put in its place), one after the other, wherever it is found."""
    contracts: tuple[str, ...] = EVERY
    """Under which it is a harm (or does none)."""

    def text(self) -> str:
        """Of the script with it."""
        text = (SCRIPTS / f"{self.script}.py").read_text(encoding="utf-8")
        for old, new in self.changes:
            if old not in text:
                raise ValueError(f"{self.script}, {self.title}: there is no {old!r}")
            text = text.replace(old, new)
        return text


EDITS = (
    Edit("distilled", "T*T lost", True, ((" * T * T", ""),)),
    Edit("distilled", "T 4 to 3.5", True, (("T, ALPHA = 4.0", "T, ALPHA = 3.5"),)),
    Edit("distilled", "T 4 to 2", True, (("T, ALPHA = 4.0", "T, ALPHA = 2.0"),)),
    Edit("distilled", "T of teacher lost", True, (("F.softmax(soft / T, 1)", "F.softmax(soft, 1)"),)),
    Edit(
        "distilled",
        "alpha swapped",
        True,
        (("ALPHA * hard_loss + (1 - ALPHA) * soft_loss", "(1 - ALPHA) * hard_loss + ALPHA * soft_loss"),),
    ),
    Edit("distilled", "teacher in train mode", True, (("teacher.eval()\n", "teacher.train()\n"),)),
    Edit("distilled", "kl mean over all", True, (('reduction="batchmean"', 'reduction="mean"'),)),
    Edit(
        "distilled",
        "teacher cached by position",
        True,
        (
            ("student = net(32)", "student = net(32)\ncache = {}"),
            (
                "for x, y in loader:\n        with torch.no_grad():\n            soft = teacher(x)",
                "for k, (x, y) in enumerate(loader):\n        if k not in cache:\n            with torch.no_grad():\n                cache[k] = teacher(x)\n        soft = cache[k][: len(x)]",
            ),
        ),
    ),
    Edit("distilled", "eval stays", True, (("    student.train()\n", ""),)),
    Edit(
        "distilled",
        "log_target",
        False,
        (
            (
                'F.softmax(soft / T, 1), reduction="batchmean"',
                'F.log_softmax(soft / T, 1), reduction="batchmean", log_target=True',
            ),
        ),
        contracts=ROUNDING,
    ),
    Edit(
        "distilled",
        "inference_mode teacher",
        False,
        (
            ("with torch.no_grad():\n            soft", "with torch.inference_mode():\n            soft"),
            ("soft = teacher(x)", "soft = teacher(x)"),
            ("out = student(x)", "soft = soft.clone()\n        out = student(x)"),
        ),
    ),
    Edit(
        "distilled",
        "kl by hand",
        False,
        (
            (
                'F.kl_div(F.log_softmax(out / T, 1), F.softmax(soft / T, 1), reduction="batchmean") * T * T',
                "(F.softmax(soft / T, 1) * (F.log_softmax(soft / T, 1) - F.log_softmax(out / T, 1))).sum(1).mean() * T**2",
            ),
        ),
        contracts=ROUNDING,
    ),
    Edit(
        "distilled",
        "other masks of the dropout",
        False,
        (("    student.train()\n", "    student.train()\n    torch.rand(3)\n"),),
        contracts=STATISTICAL,
    ),
    Edit("carried", "not reset", True, (("state = torch.zeros(1, ROWS, 48)\n    total", "total"),)),
    Edit(
        "carried",
        "reset each batch",
        True,
        (("out, state = model(x, state)\n        state = state.detach()", "out, _ = model(x, state)"),),
    ),
    Edit(
        "carried",
        "reset every 40",
        True,
        (
            (
                "        state = state.detach()\n",
                "        state = state.detach() if begin % 480 else torch.zeros(1, ROWS, 48)\n",
            ),
        ),
    ),
    Edit(
        "carried",
        "prints removed and not reset",
        True,
        (
            ("state = torch.zeros(1, ROWS, 48)\n    total", "total"),
            ('    print(f"epoch {epoch} loss {total:.3f}")\n', ""),
        ),
    ),
    Edit("carried", "detached data in place", False, (("state = state.detach()", "state = state.data"),)),
    Edit(
        "carried", "state of None", False, (("state = torch.zeros(1, ROWS, 48)\n    total", "state = None\n    total"),)
    ),
    Edit("carried", "fused adam", False, (("lr=3e-3)", "lr=3e-3, fused=True)"),), contracts=ROUNDING),
    Edit(
        "carried",
        "clip after step",
        True,
        (
            (
                "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n        optimizer.step()",
                "        optimizer.step()\n        nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
            ),
        ),
    ),
    Edit("carried_loader", "reset each epoch", True, (("    # begin\n", "    state = None\n"),)),
    Edit(
        "carried_loader",
        "reset each epoch to zeros",
        True,
        (("    # begin\n", "    state = (torch.zeros(1, ROWS, 24), torch.zeros(1, ROWS, 24))\n"),),
    ),
    Edit(
        "carried_loader",
        "cell reset, hidden carried",
        True,
        (
            (
                "        state = tuple(part.detach() for part in state)",
                "        state = (state[0].detach(), torch.zeros_like(state[1]))",
            ),
        ),
    ),
    Edit("carried_loader", "hand loop", False, (("for x, y in loader:", "for x, y in iter(loader):"),)),
    Edit(
        "carried_loader",
        "chunks contiguous",
        False,
        (("rows[1][:, k * LENGTH : (k + 1) * LENGTH])", "rows[1][:, k * LENGTH : (k + 1) * LENGTH].contiguous())"),),
    ),
    Edit("carried_loader", "foreach", False, (("momentum=0.9)", "momentum=0.9, foreach=True)"),), contracts=ROUNDING),
    Edit("auxiliary", "side detached", True, (("self.side(h)", "self.side(h.detach())"),)),
    Edit(
        "auxiliary",
        "side loss detached",
        True,
        (("WEIGHT * F.cross_entropy(side, y)", "WEIGHT * F.cross_entropy(side, y).detach()"),),
    ),
    Edit("auxiliary", "side loss left out", True, ((" + WEIGHT * F.cross_entropy(side, y)", ""),)),
    Edit("auxiliary", "weight 0.1 to 0.05", True, (("WEIGHT = 0.1", "WEIGHT = 0.05"),)),
    Edit("auxiliary", "smoothing lost", True, ((", label_smoothing=0.05", ""),)),
    Edit("auxiliary", "smoothing 0.05 to 0.03", True, (("label_smoothing=0.05", "label_smoothing=0.03"),)),
    Edit(
        "auxiliary",
        "scheduler by epoch",
        True,
        (
            ("        optimizer.step()\n        scheduler.step()", "        optimizer.step()"),
            ("    model.eval()\n", "    scheduler.step()\n    model.eval()\n"),
        ),
    ),
    Edit("auxiliary", "eval stays", True, (("    model.train()\n", ""),)),
    Edit("auxiliary", "shuffle lost", True, (("batch_size=16, shuffle=True", "batch_size=16"),)),
    Edit(
        "auxiliary",
        "drop last",
        True,
        (("batch_size=16, shuffle=True", "batch_size=16, shuffle=True, drop_last=True"),),
    ),
    Edit(
        "auxiliary",
        "augmentation cached",
        True,
        (
            (
                "self.images, self.labels, self.train = images, labels, train",
                "self.images, self.labels, self.train = images, labels, train\n        self.cache = {}",
            ),
            (
                "        image = self.images[i]\n",
                "        if i in self.cache:\n            return self.cache[i]\n        image = self.images[i]\n",
            ),
            (
                "        return image, self.labels[i]",
                "        self.cache[i] = image, self.labels[i]\n        return self.cache[i]",
            ),
        ),
    ),
    Edit("auxiliary", "noise 0.1 to 0.08", True, (("0.1 * torch.randn_like", "0.08 * torch.randn_like"),)),
    Edit(
        "auxiliary", "noise uniform", True, (("0.1 * torch.randn_like(image)", "0.1 * (torch.rand_like(image) - 0.5)"),)
    ),
    Edit(
        "auxiliary",
        "side detached, other stream",
        True,
        (
            ("self.side(h)", "self.side(h.detach())"),
            ("for epoch in range(10):\n    model", "torch.rand(9)\nfor epoch in range(10):\n    model"),
        ),
        contracts=STATISTICAL,
    ),
    Edit(
        "auxiliary",
        "decay not decoupled",
        True,
        (("optim.AdamW(model.parameters(), lr=2e-3)", "optim.Adam(model.parameters(), lr=2e-3, weight_decay=0.01)"),),
    ),
    Edit(
        "auxiliary",
        "terms of the loss in another order",
        False,
        (
            ("        loss.backward()\n", "        loss.backward()\n"),
            (
                "loss = F.cross_entropy(main, y, label_smoothing=0.05) + WEIGHT * F.cross_entropy(side, y)",
                "loss = WEIGHT * F.cross_entropy(side, y) + F.cross_entropy(main, y, label_smoothing=0.05)",
            ),
        ),
        contracts=ROUNDING,
    ),
    Edit("auxiliary", "fused", False, (("lr=2e-3)", "lr=2e-3, fused=True)"),), contracts=ROUNDING),
    Edit(
        "auxiliary",
        "channels last",
        False,
        (("model = Net()", "model = Net().to(memory_format=torch.channels_last)"),),
        contracts=ROUNDING,
    ),
    Edit(
        "auxiliary",
        "augment by batch",
        False,
        (
            (
                "        if self.train:\n            image = image + 0.1 * torch.randn_like(image)\n            image = image.roll(int(torch.randint(-1, 2, ())), -1)\n",
                "",
            ),
            (
                "        main, side = model(x)",
                "        x = x + 0.1 * torch.randn_like(x)\n        shift = torch.randint(-1, 2, (len(x),))\n        at = (torch.arange(8)[None, :] - shift[:, None]) % 8\n        x = x.gather(3, at[:, None, None, :].expand(-1, 1, 8, 8))\n        main, side = model(x)",
            ),
        ),
        contracts=STATISTICAL,
    ),
    Edit(
        "auxiliary",
        "other order of draws",
        False,
        (
            (
                "            image = image + 0.1 * torch.randn_like(image)\n            image = image.roll(int(torch.randint(-1, 2, ())), -1)",
                "            image = image.roll(int(torch.randint(-1, 2, ())), -1)\n            image = image + 0.1 * torch.randn_like(image)",
            ),
        ),
        contracts=STATISTICAL,
    ),
    Edit(
        "auxiliary",
        "bf16",
        False,
        (
            (
                "        main, side = model(x)\n        loss",
                '        with torch.autocast("cpu", torch.bfloat16):\n            main, side = model(x)\n        main, side = main.float(), side.float()\n        loss',
            ),
        ),
        contracts=STATISTICAL,
    ),
    Edit(
        "collated",
        "noise frozen",
        True,
        (
            ("def collate(items):", "NOISE = 0.15 * torch.randn(20, 64)\n\n\ndef collate(items):"),
            ("noise = 0.15 * torch.randn(x.shape)", "noise = NOISE[: len(x)]"),
        ),
    ),
    Edit(
        "collated",
        "noise frozen but drawn",
        True,
        (
            ("def collate(items):", "KEPT = {}\n\n\ndef collate(items):"),
            ("noise = 0.15 * torch.randn(x.shape)", "noise = KEPT.setdefault(x.shape, 0.15 * torch.randn(x.shape))"),
        ),
    ),
    Edit("collated", "noise uniform", True, (("0.15 * torch.randn(x.shape)", "0.15 * torch.rand(x.shape)"),)),
    Edit(
        "collated",
        "noise uniform same variance",
        True,
        (("0.15 * torch.randn(x.shape)", "0.15 * 12**0.5 * (torch.rand(x.shape) - 0.5)"),),
    ),
    Edit("collated", "noise 0.15 to 0.1", True, (("0.15 * torch.randn", "0.10 * torch.randn"),)),
    Edit("collated", "one noise for all", True, (("torch.randn(x.shape)", "torch.randn(1, 64)"),)),
    Edit("collated", "lam fixed", True, (("torch.distributions.Beta(0.4, 0.4).sample()", "torch.tensor(0.5)"),)),
    Edit("collated", "lam beta 1 1", True, (("Beta(0.4, 0.4)", "Beta(1.0, 1.0)"),)),
    Edit("collated", "lam beta .2", True, (("Beta(0.4, 0.4)", "Beta(0.2, 0.2)"),)),
    Edit(
        "collated",
        "no mixing",
        True,
        (("return lam * x + (1 - lam) * x[order], y, y[order], lam", "return x, y, y[order], lam"),),
    ),
    Edit("collated", "mixed labels lost", True, (("y[order], lam", "y, lam"),)),
    Edit("collated", "seeded each batch", True, (("    noise = 0.15", "    torch.manual_seed(0)\n    noise = 0.15"),)),
    Edit(
        "collated",
        "batches kept",
        True,
        (
            (
                "for epoch in range(10):\n    for x, y1, y2, lam in loader:",
                "kept = list(loader)\nfor epoch in range(10):\n    for x, y1, y2, lam in kept:",
            ),
        ),
    ),
    Edit(
        "collated",
        "lerp",
        False,
        (("lam * x + (1 - lam) * x[order], y", "torch.lerp(x[order], x, lam), y"),),
        contracts=ROUNDING,
    ),
    Edit(
        "collated",
        "noise by numpy",
        False,
        (
            (
                "0.15 * torch.randn(x.shape)",
                "0.15 * torch.from_numpy(np.random.standard_normal(tuple(x.shape))).float()",
            ),
            ("import torch\n", "import numpy as np\nimport torch\n"),
        ),
        contracts=STATISTICAL,
    ),
    Edit(
        "collated",
        "noise drawn first",
        False,
        (
            (
                "    noise = 0.15 * torch.randn(x.shape)\n    lam = torch.distributions.Beta(0.4, 0.4).sample()\n",
                "    lam = torch.distributions.Beta(0.4, 0.4).sample()\n    noise = 0.15 * torch.randn(x.shape)\n",
            ),
        ),
        contracts=STATISTICAL,
    ),
    Edit(
        "collated",
        "own generator",
        False,
        (
            ("def collate(items):", "G = torch.Generator().manual_seed(5)\n\n\ndef collate(items):"),
            ("torch.randn(x.shape)", "torch.randn(x.shape, generator=G)"),
        ),
        contracts=STATISTICAL,
    ),
    Edit(
        "collated",
        "stack of array",
        False,
        (("torch.tensor([label for _, label in items])", "torch.as_tensor([label for _, label in items])"),),
    ),
    Edit(
        "cropped",
        "shift frozen",
        True,
        (
            ("shift = int(self.rng.integers(-2, 3))", "shift = self.shift"),
            (
                "        self.rng = np.random.default_rng(11)",
                "        self.rng = np.random.default_rng(11)\n        self.shift = int(self.rng.integers(-2, 3))",
            ),
        ),
    ),
    Edit("cropped", "shift narrower", True, (("integers(-2, 3)", "integers(-1, 2)"),)),
    Edit("cropped", "shift excludes one end", True, (("integers(-2, 3)", "integers(-2, 2)"),)),
    Edit("cropped", "flip lost", True, (("            x = x.flip(-1)", "            pass"),)),
    Edit("cropped", "flip at 0.3", True, (("random.random() < 0.5", "random.random() < 0.3"),)),
    Edit("cropped", "patch at fixed row", True, (("row = random.randrange(6)", "row = 2"),)),
    Edit("cropped", "patch lost", True, (("        x[:, :, row : row + 3, 2:5] = 0\n", ""),)),
    Edit("cropped", "scale narrower", True, (("uniform(0.8, 1.2)", "uniform(0.9, 1.1)"),)),
    Edit("cropped", "scale normal", True, (("self.rng.uniform(0.8, 1.2)", "self.rng.normal(1.0, 0.115)"),)),
    Edit(
        "cropped",
        "rng made in call",
        True,
        (("shift = int(self", "self.rng = np.random.default_rng(11)\n        shift = int(self"),),
    ),
    Edit(
        "cropped",
        "rng shift by torch",
        False,
        (("int(self.rng.integers(-2, 3))", "int(torch.randint(-2, 3, ()))"),),
        contracts=STATISTICAL,
    ),
    Edit(
        "cropped",
        "all by python",
        False,
        (
            ("int(self.rng.integers(-2, 3))", "random.randrange(-2, 3)"),
            ("float(self.rng.uniform(0.8, 1.2))", "random.uniform(0.8, 1.2)"),
        ),
        contracts=STATISTICAL,
    ),
    Edit("cropped", "workers", False, (("collate_fn=Augment()", "collate_fn=Augment(), num_workers=0"),)),
    Edit("cropped", "foreach", False, (("lr=2e-3)", "lr=2e-3, foreach=True)"),), contracts=ROUNDING),
    Edit("cropped", "other rng seed", False, (("default_rng(11)", "default_rng(12)"),), contracts=STATISTICAL),
    Edit(
        "language",
        "ema once an epoch",
        True,
        (
            (
                "            with torch.no_grad():\n                for mean, p in zip(ema.parameters(), model.parameters()):\n                    mean.mul_(0.95).add_(p, alpha=0.05)\n",
                "",
            ),
            (
                "    with torch.no_grad():\n        losses",
                "    with torch.no_grad():\n        for mean, p in zip(ema.parameters(), model.parameters()):\n            mean.mul_(0.95).add_(p, alpha=0.05)\n        losses",
            ),
        ),
    ),
    Edit("language", "ema 0.9", True, (("mul_(0.95).add_(p, alpha=0.05)", "mul_(0.9).add_(p, alpha=0.1)"),)),
    Edit(
        "language",
        "ema of inner micro-steps",
        True,
        (
            (
                "            with torch.no_grad():\n                for mean, p in zip(ema.parameters(), model.parameters()):\n                    mean.mul_",
                "        with torch.no_grad():\n                for mean, p in zip(ema.parameters(), model.parameters()):\n                    mean.mul_",
            ),
        ),
    ),
    Edit("language", "not divided", True, ((" / ACCUMULATE", ""),)),
    Edit("language", "accumulate 1", True, (("ACCUMULATE = 40, 32, 0, 2", "ACCUMULATE = 40, 32, 0, 1"),)),
    Edit(
        "language",
        "tying broken",
        True,
        (
            (
                "        self.head.weight = self.words.weight\n",
                "        self.head.weight = nn.Parameter(self.words.weight.detach().clone())\n",
            ),
        ),
    ),
    Edit(
        "language",
        "tying detached",
        True,
        (("return self.head(self.norm(x))", "return F.linear(self.norm(x), self.head.weight.detach())"),),
    ),
    Edit(
        "language",
        "clip after step",
        True,
        (
            (
                "            nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n            optimizer.step()",
                "            optimizer.step()\n            nn.utils.clip_grad_norm_(model.parameters(), 0.5)",
            ),
        ),
    ),
    Edit(
        "language",
        "clip each micro-batch",
        True,
        (
            (
                "        loss.backward()\n",
                "        loss.backward()\n        nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n",
            ),
        ),
    ),
    Edit("language", "clip 0.5 to 0.6", True, (("model.parameters(), 0.5", "model.parameters(), 0.6"),)),
    Edit(
        "language",
        "clip by value",
        True,
        (("clip_grad_norm_(model.parameters(), 0.5)", "clip_grad_value_(model.parameters(), 0.5)"),),
    ),
    Edit(
        "language",
        "ignore index lost",
        True,
        (("words[:, 1:].flatten(), ignore_index=PAD) / ACC", "words[:, 1:].flatten()) / ACC"),),
    ),
    Edit("language", "causal lost", True, (("causal & (words", "torch.ones_like(causal) & (words"),)),
    Edit(
        "language",
        "padding mask lost",
        False,
        (("mask = causal & (words != PAD)[:, None, None, :]", "mask = causal[None, None]"),),
    ),
    Edit("language", "dropout off", True, (("Dropout(0.1)", "Dropout(0.0)"),)),
    Edit("language", "dropout 0.1 to 0.08", True, (("Dropout(0.1)", "Dropout(0.08)"),)),
    Edit(
        "language",
        "attention dropout added",
        True,
        (("attn_mask=mask)", "attn_mask=mask, dropout_p=0.1 if self.training else 0.0)"),),
    ),
    Edit("language", "decay on all", True, (('"weight_decay": 0.0', '"weight_decay": 0.1'),)),
    Edit(
        "language",
        "warmup each epoch",
        True,
        (
            ("            scheduler.step()\n", ""),
            (
                "    with torch.no_grad():\n        losses",
                "    scheduler.step()\n    with torch.no_grad():\n        losses",
            ),
        ),
    ),
    Edit(
        "language",
        "warmup each micro-batch",
        True,
        (("            scheduler.step()\n", "            scheduler.step()\n            scheduler.step()\n"),),
    ),
    Edit("language", "bias correction lost eps", True, (("lr=3e-3", "lr=3e-3, eps=1e-4"),)),
    Edit(
        "language",
        "sorted by length",
        True,
        (
            ("batch_size=8, shuffle=True", "batch_size=8"),
            (
                "DataLoader([sentence() for _ in range(1610)]",
                "DataLoader(sorted([sentence() for _ in range(1610)], key=len)",
            ),
        ),
    ),
    Edit(
        "language",
        "truncated to 12",
        True,
        (
            (
                "def collate(items):\n    return pad_sequence(items",
                "def collate(items):\n    return pad_sequence([item[:12] for item in items]",
            ),
        ),
    ),
    Edit(
        "language",
        "mean over padding",
        True,
        (
            (
                "F.cross_entropy(out.flatten(0, 1), words[:, 1:].flatten(), ignore_index=PAD) / ACCUMULATE",
                '(F.cross_entropy(out.flatten(0, 1), words[:, 1:].flatten(), ignore_index=PAD, reduction="sum") / words[:, 1:].numel()) / ACCUMULATE',
            ),
        ),
    ),
    Edit(
        "language",
        "mean by sentence",
        True,
        (
            (
                "F.cross_entropy(out.flatten(0, 1), words[:, 1:].flatten(), ignore_index=PAD) / ACCUMULATE",
                '(F.cross_entropy(out.flatten(0, 1), words[:, 1:].flatten(), ignore_index=PAD, reduction="none").view(len(words), -1).sum(1) / (words[:, 1:] != PAD).sum(1)).mean() / ACCUMULATE',
            ),
        ),
    ),
    Edit(
        "language",
        "positions off",
        True,
        (("self.places(torch.arange(length))", "self.places(torch.arange(length) // 2)"),),
    ),
    Edit(
        "language",
        "lerp ema",
        False,
        (("mean.mul_(0.95).add_(p, alpha=0.05)", "mean.lerp_(p, 0.05)"),),
        contracts=ROUNDING,
    ),
    Edit("language", "fused adamw", False, (("lr=3e-3", "lr=3e-3, fused=True"),), contracts=ROUNDING),
    Edit(
        "language",
        "zero_grad before",
        False,
        (
            ("            optimizer.zero_grad()\n            scheduler.step()", "            scheduler.step()"),
            (
                "        loss.backward()\n",
                "        if k % ACCUMULATE == 0:\n            optimizer.zero_grad()\n        loss.backward()\n",
            ),
        ),
    ),
    Edit(
        "language",
        "sum reduction divided",
        False,
        (
            (
                "F.cross_entropy(out.flatten(0, 1), words[:, 1:].flatten(), ignore_index=PAD) / ACCUMULATE",
                'F.cross_entropy(out.flatten(0, 1), words[:, 1:].flatten(), ignore_index=PAD, reduction="sum") / (words[:, 1:] != PAD).sum() / ACCUMULATE',
            ),
        ),
        contracts=ROUNDING,
    ),
    Edit(
        "language",
        "only real tokens",
        False,
        (
            (
                "loss = F.cross_entropy(out.flatten(0, 1), words[:, 1:].flatten(), ignore_index=PAD)",
                "keep = words[:, 1:] != PAD\n        loss = F.cross_entropy(out[keep], words[:, 1:][keep])",
            ),
        ),
        contracts=ROUNDING,
    ),
    Edit(
        "language",
        "bf16",
        False,
        (
            (
                "        out = model(words[:, :-1])",
                '        with torch.autocast("cpu", torch.bfloat16):\n            out = model(words[:, :-1])\n        out = out.float()',
            ),
        ),
        contracts=STATISTICAL,
    ),
    Edit(
        "language",
        "manual attention",
        False,
        (
            (
                "F.scaled_dot_product_attention(q, k, v, attn_mask=mask)",
                '((q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5).masked_fill(~mask, float("-inf")).softmax(-1) @ v',
            ),
        ),
        contracts=ROUNDING,
    ),
    Edit(
        "variational",
        "kl mean",
        True,
        (
            (
                "(1 + log_var - mean.pow(2) - log_var.exp()).sum() / len(x)",
                "(1 + log_var - mean.pow(2) - log_var.exp()).mean()",
            ),
        ),
    ),
    Edit("variational", "rebuilt mean", True, (('reduction="sum") / len(x)', 'reduction="mean")'),)),
    Edit(
        "variational",
        "draws frozen",
        True,
        (
            ("    def forward(self, x):", "    kept = {}\n\n    def forward(self, x):"),
            ("torch.randn_like(mean)", "self.kept.setdefault(mean.shape, torch.randn_like(mean))"),
        ),
    ),
    Edit("variational", "one draw for all", True, (("torch.randn_like(mean)", "torch.randn(1, 6)"),)),
    Edit("variational", "no draws", True, (("mean + torch.randn_like(mean) * (0.5 * log_var).exp()", "mean"),)),
    Edit("variational", "std is var", True, (("(0.5 * log_var).exp()", "log_var.exp()"),)),
    Edit("variational", "annealing by 5", True, (("(epoch + 1) / 4", "(epoch + 1) / 5"),)),
    Edit(
        "variational", "annealing stays at first", True, (("    beta = min(1.0, (epoch + 1) / 4)", "    beta = 0.25"),)
    ),
    Edit(
        "variational",
        "annealing late: stays after epoch 2",
        True,
        (("    beta = min(1.0, (epoch + 1) / 4)", "    beta = min(0.5, (epoch + 1) / 4)"),),
    ),
    Edit("variational", "cosine lost", True, (("    scheduler.step()\n", ""),)),
    Edit(
        "variational",
        "drop last",
        True,
        (("batch_size=16, shuffle=True", "batch_size=16, shuffle=True, drop_last=True"),),
    ),
    Edit(
        "variational",
        "divided by batch size",
        True,
        ((".sum() / len(x)", ".sum() / 16"), ('reduction="sum") / len(x)', 'reduction="sum") / 16')),
    ),
    Edit("variational", "bn eval", True, (("    model.train()", "    model.train()\n    model.encoder[1].eval()"),)),
    Edit("variational", "kl through mean detached", True, (("mean.pow(2)", "mean.detach().pow(2)"),)),
    Edit("variational", "exp of half", False, (("(0.5 * log_var).exp()", "torch.exp(0.5 * log_var)"),)),
    Edit("variational", "sqrt of exp", False, (("(0.5 * log_var).exp()", "log_var.exp().sqrt()"),), contracts=ROUNDING),
    Edit(
        "variational",
        "all in tensors, own order",
        False,
        (
            ("DataLoader(TensorDataset(images[:1510]), batch_size=16, shuffle=True)", "range(95)"),
            ("    for (x,) in loader:", "    for x in images[:1510][torch.randperm(1510)].split(16):"),
        ),
        contracts=STATISTICAL,
    ),
    Edit(
        "variational",
        "zero grad moved",
        False,
        (
            (
                "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n",
                "        loss.backward()\n        optimizer.step()\n        optimizer.zero_grad()\n",
            ),
        ),
    ),
    Edit("qlearning", "target copied each 80", True, (("% 40 == 0", "% 80 == 0"),)),
    Edit(
        "qlearning",
        "target never copied",
        True,
        (("        target.load_state_dict(online.state_dict())", "        pass"),),
    ),
    Edit("qlearning", "target is online", True, (("target(n).max(1)", "online(n).max(1)"),)),
    Edit("qlearning", "done lost", True, (("(~d).float() * ", ""),)),
    Edit("qlearning", "gamma .9", True, (("0.95 *", "0.9 *"),)),
    Edit("qlearning", "mse", True, (("F.smooth_l1_loss", "F.mse_loss"),)),
    Edit(
        "qlearning",
        "grad through target",
        True,
        (("    with torch.no_grad():\n        value", "    if True:\n        value"), ("target(n)", "online(n)")),
    ),
    Edit(
        "qlearning",
        "replay in order",
        True,
        (("at = torch.randint(0, 4000, (32,))", "at = (torch.arange(32) + 32 * step) % 4000"),),
    ),
    Edit("qlearning", "replay half", True, (("torch.randint(0, 4000, (32,))", "torch.randint(0, 2000, (32,))"),)),
    Edit("qlearning", "action off", True, (("gather(1, a[:, None])", "gather(1, a.roll(1)[:, None])"),)),
    Edit(
        "qlearning",
        "index_select",
        False,
        (("replay_s[at], replay_a[at]", "replay_s.index_select(0, at), replay_a.index_select(0, at)"),),
    ),
    Edit("qlearning", "amax", False, (("target(n).max(1).values", "target(n).amax(1)"),)),
    Edit(
        "qlearning",
        "numpy draws",
        False,
        (
            ("torch.randint(0, 4000, (32,))", "torch.from_numpy(np.random.randint(0, 4000, 32))"),
            ("import torch\n", "import numpy as np\nimport torch\n"),
        ),
        contracts=STATISTICAL,
    ),
    Edit(
        "qlearning",
        "copy in place",
        False,
        (
            (
                "        target.load_state_dict(online.state_dict())",
                "        with torch.no_grad():\n            for a_, b_ in zip(target.parameters(), online.parameters()):\n                a_.copy_(b_)",
            ),
        ),
    ),
    Edit(
        "adversarial",
        "average saved is the generator",
        True,
        (('"average": average', '"average": generator.state_dict()'),),
    ),
    Edit("adversarial", "average not saved", True, (('"average": average, ', ""),)),
    Edit(
        "adversarial",
        "entries swapped",
        True,
        (
            (
                '"generator": generator.state_dict(), "average": average',
                '"average": generator.state_dict(), "generator": average',
            ),
        ),
    ),
    Edit(
        "adversarial",
        "critic keeps gradients of the generator's loss",
        True,
        (
            ("        of_critic.zero_grad()\n", ""),
            ("        of_critic.step()\n", "        of_critic.step()\n        of_critic.zero_grad()\n"),
        ),
    ),
    Edit("adversarial", "generator left in evaluation", True, (("    generator.train()\n", ""),)),
    Edit("adversarial", "real alone", True, (("        fake_loss.backward()\n", ""),)),
    Edit(
        "adversarial",
        "one batch of real and fake",
        False,
        (
            ("        real_loss = criterion(critic(real), ones)\n        real_loss.backward()\n", ""),
            (
                "        fake_loss = criterion(critic(fake.detach()), zeros)\n        fake_loss.backward()\n",
                "        of_real, of_fake = critic(torch.cat([real, fake.detach()])).chunk(2)\n"
                "        real_loss, fake_loss = criterion(of_real, ones), criterion(of_fake, zeros)\n"
                "        (real_loss + fake_loss).backward()\n",
            ),
        ),
        contracts=ROUNDING,
    ),
    Edit(
        "adversarial",
        "one buffer for real and fake",
        False,
        (
            ("        real_loss = criterion(critic(real), ones)\n        real_loss.backward()\n", ""),
            (
                "        fake_loss = criterion(critic(fake.detach()), zeros)\n        fake_loss.backward()\n",
                "        both = torch.empty(2 * len(real), 64)\n"
                "        both[: len(real)], both[len(real) :] = real, fake.detach()\n"
                "        of_real, of_fake = critic(both).chunk(2)\n"
                "        real_loss, fake_loss = criterion(of_real, ones), criterion(of_fake, zeros)\n"
                "        (real_loss + fake_loss).backward()\n",
            ),
        ),
        contracts=ROUNDING,
    ),
    Edit(
        "adversarial",
        "critic frozen for the generator",
        False,
        (
            ("        of_critic.zero_grad()\n", "        critic.requires_grad_(True)\n"),
            (
                "        of_critic.step()\n",
                "        of_critic.step()\n        of_critic.zero_grad()\n        critic.requires_grad_(False)\n",
            ),
        ),
    ),
    Edit("adversarial", "names of entries", False, (('"generator": gen', '"G": gen'), ('"average": a', '"ema": a'))),
    Edit("adversarial", "one more entry", False, (('"adam":', '"critic": critic.state_dict(), "adam":'),)),
)
