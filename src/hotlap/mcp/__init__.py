"""A server of the Model Context Protocol: the commands of hotlap as tools, the studies made by them as resources.

Needs the package `mcp` (`pip install 'mcp>=2'`). Torch is imported by the commands that run a training only, and
those are processes of their own.
"""
