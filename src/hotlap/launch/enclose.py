"""Starts a command in which the user's folders can be written without being changed (Linux mount namespace).

`python -I -S enclose.py SPEC.json COMMAND...` puts an overlay over each folder named in SPEC, then becomes COMMAND. All
that the command creates, changes or deletes there lands in a folder of hotlap's that is thrown away. If the system
does not allow it, the command is started all the same, and the file named by SPEC's "told" says why.

Uses nothing but the standard library, and starts in 15 ms.
"""

import ctypes
import json
import os
import signal
import sys

# <sched.h>, <sys/mount.h>, <linux/prctl.h>
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Enclose, then become the command."""
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _offer_to_the_oom_killer()
    if spec["folders"]:
        try:
            _new_namespace(libc)
            for number, folder in enumerate(spec["folders"]):
                _overlay(libc, folder, f"{spec['scratch']}/{number}", spec["keep"])
        except OSError as error:
            with open(spec["told"], "w", encoding="utf-8") as told:
                told.write(f"{error.strerror} ({error.filename or 'namespace'})")
    os.chdir(spec["cwd"])
    try:
        os.execvp(sys.argv[2], sys.argv[2:])
    except OSError as error:
        sys.stderr.write(f"hotlap: cannot start {sys.argv[2]}: {error.strerror}\n")
        sys.exit(127)


def _offer_to_the_oom_killer() -> None:
    """Where memory runs out the trial shall go, before hotlap or anything else of the user's."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        return


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _new_namespace(libc: ctypes.CDLL) -> None:
    if os.geteuid() == 0:
        _check(libc.unshare(_CLONE_NEWNS), "unshare")
    else:
        uid, gid = os.getuid(), os.getgid()
        _check(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "unshare")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    # What is mounted from here on is seen by this process and its children only.
    _check(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "/")


def _overlay(libc: ctypes.CDLL, folder: str, layer: str, keep: list[str]) -> None:
    """Cover `folder`, and each file system that is mounted below it (an overlay shows only the one it lies on)."""
    below = folder.rstrip("/") + "/"
    mounts = [path for path in _mount_points() if path.startswith(below)]
    # Held open, because the cover hides them. What must be written for real (the record) is mounted back as it is.
    held = [(path, os.open(path, os.O_PATH)) for path in sorted(mounts) if os.path.isdir(path)]
    kept = [(path, os.open(path, os.O_PATH)) for path in keep if path.startswith(below)]
    _cover(libc, folder, folder, layer)
    for number, (path, descriptor) in enumerate(held):
        _cover(libc, f"/proc/self/fd/{descriptor}", path, f"{layer}.{number}")
        os.close(descriptor)
    for path, descriptor in kept:
        _check(libc.mount(f"/proc/self/fd/{descriptor}".encode(), os.fsencode(path), None, _MS_BIND, None), path)
        os.close(descriptor)


def _cover(libc: ctypes.CDLL, lower: str, target: str, layer: str) -> None:
    upper, work = f"{layer}/upper", f"{layer}/work"
    os.makedirs(upper)
    os.makedirs(work)
    # Permissions and owner of the top folder are those of the layer on top.
    state = os.stat(lower)
    os.chmod(upper, state.st_mode & 0o7777)
    if os.geteuid() == 0:
        os.chown(upper, state.st_uid, state.st_gid)
    options = f"lowerdir={_escaped(lower)},upperdir={_escaped(upper)},workdir={_escaped(work)}"
    _check(libc.mount(b"overlay", os.fsencode(target), b"overlay", 0, os.fsencode(options)), target)


def _mount_points() -> list[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        points = [line.split()[4] for line in file]
    # The kernel writes blanks and backslashes as octal numbers.
    return [point.encode("utf-8", "surrogateescape").decode("unicode_escape") for point in points]


def _escaped(path: str) -> str:
    """Overlay options are separated by commas, layers by colons."""
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")


if __name__ == "__main__":
    main()
