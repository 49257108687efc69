#!/usr/bin/env bash
# Build wheel and sdist, install each into an empty environment, and use it from another, read-only
# directory: what a user of `pip install holdfast` gets, without the checkout in reach.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
work="$(mktemp -d)"
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
python="${PYTHON:-python3}"
unset PYTHONPATH
"$python" -m venv "$work/build"
"$work/build/bin/python" -m pip --disable-pip-version-check install --quiet "hatchling>=1.26"
(cd "$root" && "$work/build/bin/python" -m hatchling build --directory "$work/dist")
mkdir "$work/empty"
chmod a-w "$work/empty"
"$python" -m venv "$work/user"
for file in "$work"/dist/*.whl "$work"/dist/*.tar.gz; do
  "$work/user/bin/python" -m pip --disable-pip-version-check install --quiet --force-reinstall \
    --no-deps --constraint "$root/constraints.txt" "$file"
  "$work/user/bin/python" -m pip --disable-pip-version-check install --quiet \
    --constraint "$root/constraints.txt" "$file"
  cd "$work/empty"
  "$work/user/bin/holdfast" list > /dev/null
  "$work/user/bin/holdfast" envs SafetyPointGoal1-v0 > /dev/null
  "$work/user/bin/holdfast" bench ours --dry-run > /dev/null
  "$work/user/bin/holdfast" train c-trpo SafetyHopperVelocity-v1 --steps 20000 --quiet \
    --out "$work/run-${file##*.}"
  "$work/user/bin/holdfast" evaluate "$work/run-${file##*.}" --episodes 5 > /dev/null || [ $? -eq 3 ]
  echo "$(basename "$file"): installs, trains and evaluates"
done
