#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs_test.sh TRIREME: scripts/check_docs.py names exactly the faults of a document with one of each kind.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
check() { python3 "$here/../../scripts/check_docs.py" --trireme "$1" "$place/README.md"; }

cat >"$place/README.md" <<'END'
Use `trireme train CONFIG --print-config`, `scripts/test.sh --filter NAME`, or `mpirun -np 2 trireme eval RUN`; see `runtime/nn/layer.h`.
```sh slow
mpirun -np 2 trireme train configs/gpt_tiny.yaml --set train.steps=3 && scripts/lint.sh; cmake --preset asan  # a comment --here
ctest --preset cpu -L unit
```
```text
trireme anything --at-all
```
END
check "$1" >"$place/said" || { echo "a sound document is refused:" && cat "$place/said"; exit 1; }

cat >"$place/README.md" <<'END'
See [x](nowhere.md) and `gone/file.h`. Use `trireme train --nope` or `scripts/lint.sh --what`.
```sh slow
mpirun -np 2 trireme tarin configs/gpt_tiny.yaml
build/cpu/trireme train configs/none.yaml --set train.stepz=3 --frsh
scripts/nothere.sh && scripts/test.sh --bogus
cmake --preset absent; ctest --preset cpu -L nolabel
sbatch launch/slurm/train.sbatch configs/gpt_tiny.yaml --set modl.x=1
```
```sh whim
if then
```
```
x
```
END
printf '\n%.0s' {1..100} >>"$place/README.md"
if check "$1" >"$place/said"; then echo "a document full of faults is accepted" && exit 1; fi
missing=0
while read -r fault; do
  grep -qF -- "$fault" "$place/said" || { echo "not found: $fault" && missing=1; }
done <<'END'
no subcommand tarin
no file configs/none.yaml
no key train.stepz
trireme train has no option --frsh
no script scripts/nothere.sh
scripts/test.sh has no option --bogus
no preset absent
no test has the label nolabel
no key modl.x
'whim' is no reason
syntax error
the fence says no language
trireme train has no option --nope
scripts/lint.sh has no option --what
no file gone/file.h
nowhere.md leads nowhere
lines, at most 100
END
[[ $missing == 0 && $(tail -n 1 "$place/said") == *" 17 faults" ]] || { cat "$place/said" && exit 1; }
