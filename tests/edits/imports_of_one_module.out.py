from hotlap.data import *
from hotlap.data import cached, resident
from torch.utils.data import DataLoader

a = DataLoader(cached(train))
b = Test(resident(test))
# edit: wrap Test 0 dataset resident | from hotlap.data import resident
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached
from hotlap.data import batched
