import os

from hotlap.data import cached

from .model import Net

net = Net(cached(os.environ))
# edit: wrap Net 0 dataset cached | from hotlap.data import cached
