"""Text of a record -> text that is safe to show: a study is a file that anybody may have written."""

import re
import unicodedata

# Escape sequences of terminals, whole, so that no "[31m" is left of them: operating-system commands (title, clipboard,
# links) and device strings up to their terminator, control sequences, two-character escapes; then their C1 spellings.
# Source: ECMA-48, sections 5.3 to 5.6. A newline ends the strings here, so that an open one cannot swallow the rest.
_ESCAPES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]"
)
# Control and format characters (bidirectional overrides make text read as what it is not), lone surrogates (cannot be
# encoded), line and paragraph separators.
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def clean(text: str) -> str:
    """`text` without escape sequences and control characters; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    plain = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return "".join(char for char in plain if char in "\n\t" or unicodedata.category(char) not in _UNSHOWN)


def clean_line(text: str) -> str:
    """`text` as one line: as `clean`, and all white space as single blanks."""
    return " ".join(clean(text).split())


def last_lines(text: str, count: int) -> str:
    """The last `count` lines of what a program printed, as a terminal shows them: a carriage return starts over."""
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    lines = [clean(line).rstrip() for line in shown]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines[-count:])
