# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of whole jobs: a small run, and complaints. The test ends with `exit $failed`.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tests/hosts/network.sh
source "$repository/tests/hosts/network.sh"
# shellcheck source=tests/support/interrupted_run.sh
source "$repository/tests/support/interrupted_run.sh"
readonly skipped=77
failed=0

skip() {
  echo "skipped: $1"
  exit $skipped
}

# Slurm's and Open MPI's settings of the caller would affect the jobs.
unset "${!SLURM_@}" "${!OMPI_MCA_@}" "${!PRTE_MCA_@}" "${!NCCL_@}" "${!TRIREME_@}"

# Information for a failure: the case, and the log of its job.
test_case=none log=/dev/null code=0
begin() {
  test_case=$1
  printf '%s: %s\n' "$(date '+%T')" "$1"
}
complain() {
  printf '%s: expected %s\n' "$test_case" "$1"
  sed 's/^/    /' "$log" | tail -n 60
  failed=1
}
expect_code() { [[ $code -eq $1 ]] || complain "exit code $1, got $code"; }
expect_text() { grep -qE -- "$1" "$log" || complain "the output to contain: $1"; }
# Ranks of Open MPI 5 that lose a peer end with its message and code 14, often before the cause is reported.
expect_text_of_ranks() {
  if mpirun --version | grep -q ' 5\.'; then expect_text "$1|unexpectedly disconnected|in Socket closed|[Ee]xit(ed with exit)? code:? +14"; else expect_text "$1"; fi
}
expect_equal() { [[ -n $1 && $1 == "$2" ]] || complain "$3: '$1' and '$2'"; }

# wait_until SECONDS COMMAND...: 1 if it stays false.
wait_until() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}

# Data and a config for a run of 4 ranks with layout-independent bits.
prepare_run() {
  local place=$1 trireme=$2
  head -c 20000 /dev/urandom | base64 >"$place/text.txt"
  "$trireme" data pack-text "$place/text.txt" --out "$place/data" --quiet >"$place/pack.log" 2>&1 || {
    cat "$place/pack.log"
    exit 1
  }
  cat >"$place/config.yaml" <<CONFIG
run: {directory: unused, seed: 7}
device: {type: cpu}
precision: fp32
reproducibility: layout
model: {family: gpt2, layers: 1, hidden: 16, heads: 2, context: 16, vocabulary: 256}
data: {path: $place/data}
train: {steps: 20, global_batch: 8, micro_batch: 1}
CONFIG
}

# "loss weights" as the run logs them at its end.
bits_of() { sed -nE 's/.*final loss .*exact bits (0x[^)]*)\), weights xxh3 ([0-9a-f]*).*/\1 \2/p' "$1" | tail -n 1; }
