"""CHILD: measures what the machine can do at best, in a process of its own, with torch."""
