#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts_elsewhere.sh: every script prints help when started from another directory by a relative path, and finds the
# repository from there. Python scripts may report missing packages.
set -u
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place" || exit 1
scripts=$(realpath --relative-to=. "$repository/scripts")
failed=0
complain() {
  echo "$*"
  failed=1
}

for script in "$scripts"/*; do
  [[ -f $script && -x $script ]] || continue
  if [[ $script == *.py ]] && ! command -v python3 >/dev/null; then continue; fi
  said=$("$script" --help 2>&1 </dev/null)
  code=$?
  [[ $said != *Traceback* && $said != *"can't read"* && $said != *"No such file"* ]] || complain "$script --help: $said"
  if [[ $said == *"No module named"* ]]; then continue; fi
  ((${#said} > 80)) || complain "$script --help says only: $said"
  [[ $code == 0 || $script == *.py ]] || complain "$script --help ends with $code"
done

# Paths are relative to the caller's directory.
printf 'int x;\t\n' >breach.cpp
"$scripts/lint.sh" breach.cpp | grep -q breach.cpp:1 || complain "lint.sh does not find a file beside its caller"
exit $failed
