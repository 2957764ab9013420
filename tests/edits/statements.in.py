import torch


def step(model, x, y):
    if x is None:
        return model(y)  # three
    loss = loss_fn(
        model(x),  # logits

        """a text
    that stays""", y,
    )
    z = model(x) + model(y)
    (
        model(x)
    )
    try:
     model(x)
    except ValueError: pass
    x = [model(x) for x in y]
    return sum(l for l in model(x))


class Net:
	def forward(self, x):
		x = \
			model(x)
		return x
# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
