"""`hotlap mcp`: the commands as tools for clients of the Model Context Protocol."""

import argparse
import sys
from pathlib import Path

from hotlap.errors import UserError


def run(args: argparse.Namespace) -> int:
    """Serve until the client leaves; the exit code."""
    try:
        from hotlap.mcp.server import Server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio", "pydantic"):
            raise
        raise UserError("`hotlap mcp` needs the package mcp, version 2: pip install 'mcp>=2'.") from None
    if sys.stdin.isatty():
        print("hotlap: waiting for a client on standard input; Ctrl-C ends it.", file=sys.stderr)
    Server(Path.cwd()).run("stdio")
    return 0
