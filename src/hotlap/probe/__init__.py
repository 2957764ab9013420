"""CHILD: lives inside the user's training process; times it, and installs levers."""
