"""Runs the Python blocks of one page: `run_blocks.py NAMES BLOCKS`, BLOCKS a JSON file.

They share one namespace.
"""

import json
import sys
from pathlib import Path

names, blocks = (Path(word).read_text(encoding="utf-8") for word in sys.argv[1:])
namespace = {"__name__": "__main__"}
exec(compile(names, sys.argv[1], "exec"), namespace)
for block in json.loads(blocks):
    # Empty lines in front, so that a traceback names the line of the page.
    code = "\n" * block["line"] + block["code"]
    exec(compile(code, block["page"], "exec"), namespace)
