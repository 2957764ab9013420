from torch.optim import AdamW

a = AdamW(*args, fused=True)
b = AdamW(params, **{**extra, "fused": True})
c = AdamW(params, lr=0.1, **{**extra, "fused": True}, eps=1e-8)
d = AdamW(params, **{**(extra or {}), "fused": True})
e = AdamW(params, **{**(extra or {}), "fused": True})
f = AdamW(params, **{**{"lr": 0.1}, "fused": True})
g = AdamW(params, **{"lr": 0.1, "fused": True})
i = AdamW(params, fused=True, **extra)
j = AdamW(fused=True)
k = AdamW((p for p in params), fused=True)
m = AdamW(fused=True )
# edit: add AdamW fused=True
