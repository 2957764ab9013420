#!/usr/bin/env bash
# One call for a machine with a GPU: the tests that need one, then all benchmarks. Needs no network.
#
# PYTHON= is an interpreter with torch for that GPU. What else hotlap needs is taken from that interpreter, or else
# from wheels in .wheels/ (made beforehand by `python -m pip download -d .wheels ...` on a machine with a network).
# Results lie in benchmarks/results; the tests' own words in benchmarks/results/gpu-tests.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"

if ! "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())'; then
  echo "gpu.sh: $python has no torch that sees a GPU. Give one as in PYTHON=/opt/venv/bin/python make gpu." >&2
  exit 2
fi

needed='jinja2 libcst msgspec numpy psutil rich scipy hypothesis pytest pytest_timeout PIL sklearn'
missing() {
  # shellcheck disable=SC2086
  "$1" -c 'import sys, importlib.util as u; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])' $needed
}
if [ -n "$(missing "$python")" ] && [ -d .wheels ]; then
  "$python" -m venv --system-site-packages .venv-gpu
  .venv-gpu/bin/python -m pip install --quiet --no-index --find-links .wheels .wheels/*.whl
  python=.venv-gpu/bin/python
fi
if [ -n "$(missing "$python")" ]; then
  echo "gpu.sh: $python lacks: $(missing "$python"). Install them, or put their wheels into .wheels/." >&2
  exit 2
fi

# The checkout itself, not an installed copy.
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p benchmarks/results
code=0
"$python" -m pytest -m gpu -q tests tests/device/suite.py 2>&1 | tee benchmarks/results/gpu-tests.txt || code=$?
# 5: no test is marked `gpu` yet.
if [ "$code" -ne 0 ] && [ "$code" -ne 5 ]; then
  echo "gpu.sh: tests failed; the benchmarks are run all the same." >&2
fi
# Predictions first, then the runs that judge them; the table in docs/predict.md takes the result.
"$python" benchmarks/predict/reality.py || code=1
"$python" benchmarks/predict/paste.py || code=1
PYTHON="$python" benchmarks/all.sh || code=1
[ "$code" -eq 5 ] && code=0
exit "$code"
