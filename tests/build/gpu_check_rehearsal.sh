#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_check_rehearsal.sh BUILD: scripts/gpu_check.sh on the CPU accepts a good program, rejects one that depends on
# chance, and reports a missing GPU.
set -euo pipefail
build=$1
source_directory=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
check=$source_directory/scripts/gpu_check.sh
place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT

# expect CODE COMMAND...: writes the output to $place/output.
expect() {
  local want=$1 code=0
  shift
  "$@" >"$place/output" 2>&1 || code=$?
  if ((code != want)); then
    cat "$place/output"
    echo "exit code $code instead of $want: $*" >&2
    exit 1
  fi
}
# expect_result FILE NAME STATUS: checks a row's status in the output.
expect_result() { grep -qE "^ +$3 +$2: " "$1" || { cat "$1"; echo "$1: '$2' is not $3" >&2; exit 1; }; }

out=$place/out report=$place/out/report.md
expect 0 "$check" basics ranks --build "$build" --device cpu --out "$out" \
  --only '^control: (start|two)|^engine: train|^unit tests|^parity: gpt fp32|^repeat: gpt bf16|^layouts: (data 2|tensor 2, layout mode)$|^lost ranks: .*SIGKILL|^pipelines: pipeline 2, 1f1b'
for row in start 'two ranks on the CPU' 'train two steps' base_test 'gpt fp32' 'gpt bf16 twice' 'data 2' 'tensor 2, layout mode' \
  'rank 1 gets SIGKILL' 'pipeline 2, 1f1b'; do
  expect_result "$place/output" "$row" proved
done
grep -q 'A rehearsal on the CPU' "$report"
# The first ten minutes, without what takes long on a CPU.
expect 0 "$check" first --build "$build" --device cpu --out "$out" \
  --only '^operations: profile of gpt2|^several GPUs: (same|links|memory)'
for row in 'profile of gpt2_124m' 'same bits twice' links memory; do expect_result "$place/output" "$row" proved; done
expect 0 "$check" report "$out" --out "$place/merged"
cmp "$report" "$place/merged/report.md"

# The same program with another seed each time that it trains.
mkdir "$place/build"
cat >"$place/build/trireme" <<EOF_PROGRAM
#!/usr/bin/env bash
if [[ \$1 == train ]]; then exec "$build/trireme" "\$@" --set run.seed=\$RANDOM; fi
exec "$build/trireme" "\$@"
EOF_PROGRAM
chmod +x "$place/build/trireme"
expect 1 "$check" basics --build "$place/build" --device cpu --out "$out" --only '^parity: gpt fp32|^repeat: resnet bf16'
expect_result "$place/output" 'gpt fp32' failed
expect_result "$place/output" 'resnet bf16 twice' failed

if ! command -v nvidia-smi >/dev/null && [[ ! -e /dev/nvidiactl ]]; then
  expect 2 "$check" basics --build "$build" --out "$out" --only '^engine'
  expect_result "$place/output" 'train two steps' 'not proved'
  grep -q 'no driver' "$report"
fi
