#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_check_rehearsal.sh BUILD: scripts/gpu_check.sh on the CPU says that a good program is right, that one which
# depends on chance is wrong, and that there is no GPU here where there is none.
set -euo pipefail
build=$1
source_directory=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
check=$source_directory/scripts/gpu_check.sh
place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT

# expect CODE COMMAND...: its output goes to $place/output.
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
expect_text() { grep -qF -- "$2" "$1" || { cat "$1"; echo "$1: lacks '$2'" >&2; exit 1; }; }

report=$place/report.md
sections=(--device cpu --quick --sections 'parity,ranks,repeat,abort' --report "$report")
expect 0 "$check" --build "$build" "${sections[@]}"
expect_text "$report" 'A rehearsal on the CPU'
expect_text "$report" '| repeat | gpt bf16 | ok |'
expect_text "$report" 'rank 1 of 2 gets SIGKILL | ok |'
expect_text "$report" 'tensor 2, layout mode | ok | the bits of one rank'

# The same program with another seed each time that it trains.
mkdir "$place/build"
cat >"$place/build/trireme" <<EOF_PROGRAM
#!/usr/bin/env bash
if [[ \$1 == train ]]; then exec "$build/trireme" "\$@" --set run.seed=\$RANDOM; fi
exec "$build/trireme" "\$@"
EOF_PROGRAM
chmod +x "$place/build/trireme"
expect 1 "$check" --build "$place/build" --device cpu --quick --sections parity,repeat --report "$report"
expect_text "$report" '| parity | gpt fp32 | FAILED |'
expect_text "$report" '| repeat | resnet bf16 | FAILED |'

if ! command -v nvidia-smi >/dev/null; then
  expect 2 "$check"
  expect_text "$place/output" 'no nvidia-smi'
fi
