import torch


def step(model, x, y):
    if x is None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(y).float()  # three
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(
            model(x).float(),  # logits

            """a text
    that stays""", y,
        )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = model(x).float() + model(y).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (
            model(x).float()
        )
    try:
     with torch.autocast("cpu", dtype=torch.bfloat16):
         model(x).float()
    except ValueError: pass
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = [model(x).float() for x in y]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return sum(l for l in model(x).float())


class Net:
	def forward(self, x):
		with torch.autocast("cpu", dtype=torch.bfloat16):
			x = \
				model(x).float()
		return x
# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
