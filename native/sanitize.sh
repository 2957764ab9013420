#!/usr/bin/env bash
# Builds what is native with the address and undefined-behaviour sanitizers and runs its tests over it.
#
#   native/sanitize.sh [python [variant]]     the interpreter needs torch, nanobind, pytest and hypothesis
#
# A variant (avx512, avx2, neon) is built and tested alone.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
python=${1:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/hotlap"
cp -r "$here/src/hotlap/." "$work/hotlap/"
rm -f "$work"/hotlap/*.so
export PYTHONPATH="$work"
# Asked before the build, which takes minutes: an interpreter in which hotlap is installed may test that one.
"$python" - "$work" <<'END'
import sys
from importlib.util import find_spec
found = find_spec("hotlap").origin
if not found.startswith(sys.argv[1]):
    sys.exit(f"sanitize.sh: this interpreter takes hotlap from {found}; name one in which it is not installed.")
END
cmake -S "$here" -B "$work/build" -DHOTLAP_SANITIZE=ON -DPython_EXECUTABLE="$("$python" -c 'import sys; print(sys.executable)')" \
  -Dnanobind_DIR="$("$python" -m nanobind --cmake_dir)" >"$work/log" || { cat "$work/log"; exit 1; }
targets=all
if [ $# -gt 1 ]; then
  targets="_core_$2"
  export HOTLAP_NATIVE="$2"
fi
# shellcheck disable=SC2086 # several words
cmake --build "$work/build" --parallel 1 --target $targets
cp "$work"/build/_core*.so "$work/hotlap/"
# Leaks are not looked for: Python and torch keep memory on purpose.
export LD_PRELOAD="$(${CXX:-g++} -print-file-name=libasan.so) $(${CXX:-g++} -print-file-name=libstdc++.so)"
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
cd "$here"
# Without a core that loads, all tests would be skipped.
"$python" -c 'import sys, hotlap.native as native; print(native.core().module or sys.exit(native.core().why_not))'
"$python" -m pytest -q -p no:cacheprovider tests/unit/small tests/property/test_small_step.py \
  tests/property/test_small_solve.py tests/property/test_pictures.py
