import subprocess
import sys
import time

import torch

child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *sys.argv[1:]])
while torch.ones(1).item() > 0:
    time.sleep(0.01)
