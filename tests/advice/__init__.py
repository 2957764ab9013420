"""Scripts on which advice is given, by the code of the finding."""
