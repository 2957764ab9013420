import os

from .model import Net

net = Net(os.environ)
# edit: wrap Net 0 dataset cached | from hotlap.data import cached
