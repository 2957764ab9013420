"""Names of one module are imported by one statement."""
import os
from hotlap.data import batched  # for pictures
from hotlap.small import (
    native_odeint,
    padded_recurrent as padded,  # a comment
)
from torch.utils.data import DataLoader

if os.environ.get("MORE"):
    from hotlap.data import cached_prefix

a = DataLoader(train)
b = Test(test)
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached
# edit: wrap Test 0 dataset resident | from hotlap.data import resident
# edit: after native_steps() | from hotlap.small import native_steps
# edit: add DataLoader shuffle=True
