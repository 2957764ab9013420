#!/usr/bin/env bash
# What to run first on a machine with a GPU: under ten minutes, no network.
#
#   benchmarks/gpu.sh                  the device suite, `hotlap machine`, `measure` of eight trainings, raw material
#   benchmarks/gpu.sh levers           `hotlap tune` with each lever alone, several at a time: what the gate says
#   benchmarks/gpu.sh tune             `hotlap tune` of the eight, five minutes each (--budget 2m: less)
#   HOTLAP_DEVICE=sim benchmarks/gpu.sh    the same on the simulated GPU, as a rehearsal
#
# One JSON and one page, benchmarks/results/gpu-*, say how each went; the records lie in tests/recorded (of a rehearsal
# under the temporary folder). `benchmarks/predict/reality.py` and `benchmarks/all.sh` are for later.
# PYTHON= is an interpreter with torch for that GPU. What else hotlap needs is taken from that interpreter, or else
# from wheels in .wheels/ (made beforehand by `python -m pip download -d .wheels ...` on a machine with a network).
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
export HOTLAP_DEVICE="${HOTLAP_DEVICE:-cuda}"

needed='hypothesis jinja2 msgspec numpy psutil rich scipy pytest pytest_timeout'
missing() {
  # shellcheck disable=SC2086
  "$1" -c 'import sys, importlib.util as u; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])' $needed
}
if [ -n "$(missing "$python")" ] && [ -d .wheels ]; then
  # Beside that interpreter's own packages: a virtual environment would not see those of another one.
  "$python" -m pip install --quiet --no-index --no-deps --upgrade --target .wheels/site-packages .wheels/*.whl
  export PYTHONPATH="$PWD/.wheels/site-packages${PYTHONPATH:+:$PYTHONPATH}"
fi
if [ -n "$(missing "$python")" ]; then
  echo "gpu.sh: $python lacks: $(missing "$python"). Install them, or put their wheels into .wheels/." >&2
  exit 2
fi

# The checkout itself, not an installed copy.
export PYTHONPATH="$PWD/src:$PWD${PYTHONPATH:+:$PYTHONPATH}"
if [ "$HOTLAP_DEVICE" = sim ]; then
  export PYTHONPATH="$PWD/tests:$PYTHONPATH" HOTLAP_RECORDED="${TMPDIR:-/tmp}/hotlap-rehearsal"
elif ! "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())'; then
  echo "gpu.sh: $python has no torch that sees a GPU. Give one as in PYTHON=/opt/venv/bin/python make gpu." >&2
  exit 2
fi
exec "$python" benchmarks/gpu/run.py "$@"
