import hotlap.data as data
from hotlap.data import lasting
from hotlap.data import cached, late, overlapped
from torch.utils.data import DataLoader

a = DataLoader(overlapped(lasting(late(cached(train)))))
b = DataLoader(overlapped(lasting(late(cached(train)))))
c = DataLoader(data.overlapped(lasting(late(cached(train))), memory_bytes=3))
e = DataLoader(dataset=overlapped((lasting)(late(cached((train))))))
# edit: wrap DataLoader 0 dataset overlapped | from hotlap.data import overlapped
# edit: wrap DataLoader 0 dataset late | from hotlap.data import late | hotlap.data.lasting hotlap.data.overlapped
# edit: wrap DataLoader 0 dataset lasting | from hotlap.data import lasting | hotlap.data.overlapped
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached | hotlap.data.late hotlap.data.lasting hotlap.data.overlapped
