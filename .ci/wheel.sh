#!/usr/bin/env bash
# Build wheel and sdist, install each into an empty environment, and use it from another directory without the right to write
# there or into the installation: what a user of `pip install holdfast-rl` gets, without the checkout in reach.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
work="$(mktemp -d)"
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
python="${PYTHON:-python3}"
unset PYTHONPATH
"$python" -m venv "$work/build"
"$work/build/bin/python" -m pip --disable-pip-version-check install --quiet "hatchling>=1.26" "twine>=6.1"
(cd "$root" && "$work/build/bin/python" -m hatchling build --directory "$work/dist")
"$work/build/bin/python" -m twine check --strict "$work"/dist/*
"$work/build/bin/python" "$root/.ci/packages.py" "$work/dist"
mkdir "$work/empty" "$work/out"
chmod 755 "$work"
"$python" -m venv "$work/user"

# Root may write whatever the modes say. So it becomes nobody, or, where nobody may not read the interpreter (one in
# root's home), a root without capabilities, to whom modes apply.
plain=(env "HOME=$work/out" "XDG_CACHE_HOME=$work/out/cache")
if [ "$(id -u)" = 0 ]; then
  nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs)
  library="$("$work/user/bin/python" -c 'import json; print(json.__file__)')"
  if "${nobody[@]}" test -r "$library"; then
    chown 65534:65534 "$work/out"
    plain=("${nobody[@]}" "${plain[@]}")
  else
    plain=(setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "${plain[@]}")
  fi
fi
refused() {  # that modes hold for whoever runs the commands
  if "${plain[@]}" touch "$1/written" 2>/dev/null; then
    echo "$1 can be written to, so nothing would be shown" >&2
    return 1
  fi
}

for file in "$work"/dist/*.whl "$work"/dist/*.tar.gz; do
  chmod -R u+w "$work/user"
  "$work/user/bin/python" -m pip --disable-pip-version-check install --quiet --force-reinstall \
    --no-deps --constraint "$root/constraints.txt" "$file"
  "$work/user/bin/python" -m pip --disable-pip-version-check install --quiet \
    --constraint "$root/constraints.txt" "$file"
  chmod -R a-w "$work/user" "$work/empty"
  cd "$work/empty"
  refused "$work/empty"
  refused "$("$work/user/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
  holdfast=("${plain[@]}" "$work/user/bin/holdfast")
  "${holdfast[@]}" list > /dev/null
  "${holdfast[@]}" envs SafetyPointGoal1-v0 > /dev/null
  "${holdfast[@]}" bench ours --dry-run > /dev/null
  policy="$("${holdfast[@]}" zoo | grep -o 'zoo/[^ ]*' | head -1 || true)"
  if [ -n "$policy" ]; then
    "${holdfast[@]}" export "$policy" -o "$work/out/policy-${file##*.}.npz" > /dev/null
  fi
  "${holdfast[@]}" train c-trpo SafetyHopperVelocity-v1 --steps 20000 --quiet --out "$work/out/run-${file##*.}"
  "${holdfast[@]}" evaluate "$work/out/run-${file##*.}" --episodes 5 > /dev/null || [ $? -eq 3 ]
  echo "$(basename "$file"): installs, trains and evaluates"
done
