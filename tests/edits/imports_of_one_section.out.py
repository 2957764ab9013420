import os
import sys

from hotlap.data import cached

net = Net(cached(os.environ))
# edit: wrap Net 0 dataset cached | from hotlap.data import cached
