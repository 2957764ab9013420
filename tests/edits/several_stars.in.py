from torch.optim import AdamW

a = AdamW(*args)
b = AdamW(params, **extra)
c = AdamW(params, lr=0.1, **extra, eps=1e-8)
d = AdamW(params, **(extra or {}))
e = AdamW(params, **extra or {})
f = AdamW(params, **{"lr": 0.1})
g = AdamW(params, **{"lr": 0.1, "fused": None})
i = AdamW(params, fused=False, **extra)
j = AdamW()
k = AdamW(p for p in params)
m = AdamW( )
# edit: add AdamW fused=True
