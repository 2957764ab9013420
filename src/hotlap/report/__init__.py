"""Reports: one file a format, each `render(study) -> str`; what they have in common is told by `story`."""
