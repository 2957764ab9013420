# A thread imports torch, in a function.
import threading

import loop

thread = threading.Thread(target=loop.train)
thread.start()
thread.join()
