import torch


def step(model, x, y):
    if x is None: return model(y)
    for _ in range(2): a = 1; b = model(x) ; c = 2  # three
    loss = loss_fn(
        model(x),  # logits

        """a text
    that stays""", y,
    )
    a = model(x); b = model(y)
    z = model(x) + model(y)
    (
        model(x)
    )
    try: model(x)
    except ValueError: pass
    x = [model(x) for x in y]; return sum(l for l in model(x))


class Net:
	def forward(self, x): x = \
			model(x); return x
# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
