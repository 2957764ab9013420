# A thread starts the training, another Python, and ends at once.
import subprocess
import sys
import threading
from pathlib import Path

started = []


def start():
    started.append(subprocess.Popen([sys.executable, str(Path(__file__).with_name("by_hand.py")), *sys.argv[1:]]))


thread = threading.Thread(target=start)
thread.start()
thread.join()
sys.exit(started[0].wait())
