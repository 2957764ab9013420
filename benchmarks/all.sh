#!/usr/bin/env bash
# Every benchmark, one after the other (never two at once: they measure time), then the figures into README and docs.
# PYTHON= is the interpreter that has hotlap. Arguments are names of benchmarks; without any, all are run.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
mkdir -p benchmarks/results
failed=()
if [ $# -gt 0 ]; then
  scripts=("${@/#/benchmarks/}")
  scripts=("${scripts[@]/%/.py}")
else
  scripts=(benchmarks/*.py)
fi
for script in "${scripts[@]}"; do
  [ "$script" = benchmarks/paste.py ] && continue
  echo "== $script"
  "$python" "$script" || failed+=("$script")
done
"$python" benchmarks/paste.py
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
