from torch.optim import AdamW

a = AdamW(*args)
i = AdamW(params, fused=False, **extra)
j = AdamW()
k = AdamW(p for p in params)
m = AdamW( )
# edit: add AdamW fused=True
