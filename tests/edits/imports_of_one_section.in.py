import os
import sys

net = Net(os.environ)
# edit: wrap Net 0 dataset cached | from hotlap.data import cached
