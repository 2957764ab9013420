from torch.optim import AdamW

a = AdamW(*args, fused=True)
i = AdamW(params, fused=True, **extra)
j = AdamW(fused=True)
k = AdamW((p for p in params), fused=True)
m = AdamW(fused=True )
# edit: add AdamW fused=True
