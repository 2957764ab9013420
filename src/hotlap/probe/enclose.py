"""Starts a command in which the user's folders can be written without being changed (Linux mount namespace).

`python -I -S -X utf8 enclose.py SPEC.json COMMAND...` puts an overlay over each folder named in SPEC, then becomes
COMMAND. All that the command creates, changes or deletes there lands in a folder of hotlap's that is thrown away. If
the system does not allow it, the command is started all the same, and the file named by SPEC's "told" says why.

Paths in SPEC are UTF-8 with surrogate escapes, and so they are here, whatever the locale is: bytes stay as they were.

Uses nothing but the standard library, and starts in 15 ms.
"""

import ctypes
import json
import os
import re
import signal
import sys

# <sched.h>, <sys/mount.h>, <linux/prctl.h>
_MNT_DETACH = 2
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Enclose, then become the command."""
    command = sys.argv[2:]
    prepare(sys.argv[1])
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"hotlap: cannot start {command[0]}: {error.strerror}\n")
        sys.exit(127)


def prepare(path: str) -> None:
    """Enclose this process, which has one thread, as the file at `path` says, as far as that is possible."""
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    libc = ctypes.CDLL(None, use_errno=True)
    die_with_parent()
    _offer_to_the_oom_killer()
    covered: list[str] = []
    # All folders, or none, and "edited" files (copy, place) in them; then there is a file "written".
    try:
        if spec["folders"]:
            _new_namespace(libc)
            for number, folder in enumerate(spec["folders"]):
                _overlay(libc, folder, f"{spec['scratch']}/{number}", spec["keep"], covered)
            for copy, place in spec["edited"]:
                _put(libc, copy, place, covered)
            open(spec["written"], "w").close()
    except OSError as error:
        # A cover hides the mounts below it: without covers of their own the command would miss them.
        for target in reversed(covered):
            libc.umount2(os.fsencode(target), _MNT_DETACH)
        with open(spec["told"], "w", encoding="utf-8", errors="backslashreplace") as why:
            why.write(f"{error.strerror} ({error.filename or 'namespace'})")
    os.chdir(spec["cwd"])


def die_with_parent() -> None:
    """The kernel ends this process when the thread that started it is gone, however it went: no orphan is left."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _put(libc: ctypes.CDLL, copy: str, place: str, covered: list[str]) -> None:
    if any(place.startswith(f"{folder}/") for folder in covered):
        with open(copy, "rb") as text, open(place, "wb") as file:
            file.write(text.read())
    else:
        os.chmod(copy, os.stat(place).st_mode & 0o7777)
        _bind(libc, copy, place)
        covered.append(place)


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


def _overlay(libc: ctypes.CDLL, folder: str, layer: str, keep: list[str], covered: list[str]) -> None:
    """Cover `folder`, and each file system that is mounted below it (an overlay shows only the one it lies on)."""
    below = folder.rstrip("/") + "/"
    mounts = sorted({path for path in _mount_points() if path.startswith(below)})
    # Held open, because the cover hides them. What must be written for real (the record) is mounted back as it is, and
    # so is a file that is a mount of its own: only folders can be covered.
    held = [(path, os.open(path, os.O_PATH)) for path in mounts]
    kept = [(path, os.open(path, os.O_PATH)) for path in keep if path.startswith(below)]
    _cover(libc, folder, folder, layer)
    covered.append(folder)
    for number, (path, descriptor) in enumerate(held):
        real = f"/proc/self/fd/{descriptor}"
        if os.path.isdir(real):
            _cover(libc, real, path, f"{layer}.{number}")
        else:
            _bind(libc, real, path)
        covered.append(path)
        os.close(descriptor)
    for path, descriptor in kept:
        _bind(libc, f"/proc/self/fd/{descriptor}", path)
        os.close(descriptor)


def _bind(libc: ctypes.CDLL, real: str, target: str) -> None:
    _check(libc.mount(os.fsencode(real), os.fsencode(target), None, _MS_BIND, None), target)


def _cover(libc: ctypes.CDLL, lower: str, target: str, layer: str) -> None:
    upper, work = f"{layer}/upper", f"{layer}/work"
    os.makedirs(upper)
    os.makedirs(work)
    # Permissions and owner of the top folder are those of the layer on top.
    state = os.stat(lower)
    os.chmod(upper, state.st_mode & 0o7777)
    if os.geteuid() == 0:
        os.chown(upper, state.st_uid, state.st_gid)
    # By descriptors: a path may hold what separates options and layers, and be longer than what `mount` takes.
    held = [os.open(path, os.O_PATH) for path in (lower, upper, work)]
    options = ",".join(
        f"{name}=/proc/self/fd/{descriptor}"
        for name, descriptor in zip(("lowerdir", "upperdir", "workdir"), held, strict=True)
    )
    try:
        _check(libc.mount(b"overlay", os.fsencode(target), b"overlay", 0, options.encode()), target)
    finally:
        for descriptor in held:
            os.close(descriptor)


def _mount_points() -> list[str]:
    with open("/proc/self/mountinfo", "rb") as file:
        points = [line.split()[4] for line in file]
    # The kernel writes blanks, tabs, newlines and backslashes as octal numbers.
    return [os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), point)) for point in points]


if __name__ == "__main__":
    main()
