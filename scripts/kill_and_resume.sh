#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kills a training job again and again and lets it go on under another layout, until it is done; then compares every
# step's loss and gradient norm and the weights with a job that nobody killed, bit by bit. In each round a random rank
# gets SIGKILL at a random moment, also inside a save. Prints one line per round and exits with 1 when anything differs.
#
#   scripts/kill_and_resume.sh [--jobs N] [--steps N] [--seed N] [--trireme FILE] [--keep DIR]
#
#   --jobs N         whole jobs, each killed until it is done (default: 3; 100 takes about an hour on two cores)
#   --steps N        steps of a job (default: 60)
#   --seed N         of the random choices (default: from the clock, and printed)
#   --trireme FILE   the program (default: build/cpu/trireme)
#   --keep DIR       put the run directories and logs there and leave them
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

jobs=3 steps=60 seed=$(date +%s) trireme=$repository/build/cpu/trireme keep=''
while [[ $# -gt 0 ]]; do
  case $1 in
    --jobs | --steps | --seed | --trireme | --keep)
      [[ $# -ge 2 ]] || die "$1 needs a value"
      declare "${1#--}=$2"
      shift
      ;;
    -h | --help)
      sed -n '3,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) die "unknown option $1; see scripts/kill_and_resume.sh --help" ;;
  esac
  shift
done
[[ $jobs$steps$seed =~ ^[0-9]+$ ]] || die "--jobs, --steps and --seed are numbers"
trireme=$(realpath -- "$trireme")
[[ -x $trireme ]] || die "$trireme: there is no such program; build it or say where it is with --trireme"
# shellcheck source=launch/mpi_env.sh
source "$repository/launch/mpi_env.sh" 4

work=${keep:-$(mktemp -d "${TMPDIR:-/tmp}/trireme-kill.XXXXXX")}
mkdir -p "$work"
if [[ -z $keep ]]; then trap 'rm -rf -- "$work"' EXIT; fi
RANDOM=$((seed % 32768))
say "seed $seed, $work"

# Text that a small model learns something from.
awk 'BEGIN { srand(1); split("oar rower keel bench trireme sea pull the", w, " ")
             for (i = 0; i < 20000; ++i) printf "%s ", w[1 + int(rand() * 8)] }' >"$work/text.txt"
"$trireme" data pack-text "$work/text.txt" --out "$work/data" --validation 0.1 --quiet
cat >"$work/config.yaml" <<YAML
run: {seed: 3}
reproducibility: layout
model: {family: gpt2, layers: 4, hidden: 32, heads: 4, context: 32, vocabulary: 256, dropout: 0.1}
data: {path: $work/data/train, validation_path: $work/data/validation, workers: 1}
train: {steps: $steps, global_batch: 8, micro_batch: 1, log_every: 1000, eval_every: 20}
optimizer: {name: adamw, learning_rate: 3e-3}
lr_schedule: {name: cosine, warmup_steps: 5}
parallel: {virtual_tensor: 2, watch_seconds: 60}
checkpoint: {every_steps: 3, keep: 2}
YAML

# Ranks, then flags.
layouts=(
  "1" "2" "2 parallel.tensor=2" "2 parallel.pipeline=2" "4 parallel.tensor=2" "4 parallel.pipeline=2" "2 parallel.zero=1"
  "2 parallel.zero=2" "4 parallel.zero=3" "4 parallel.tensor=2 parallel.pipeline=2"
)

# start DIRECTORY LOG RANKS [SETTING...]: a job in the background, whose process is $job.
start() {
  local directory=$1 log=$2 ranks=$3 flags=()
  shift 3
  for setting in "$@"; do flags+=(--set "$setting"); done
  mpirun -np "$ranks" "$trireme" train "$work/config.yaml" --set "run.directory=$directory" "${flags[@]}" >>"$log" 2>&1 &
  job=$!
}

# The figures of a run that no kill and no layout may change.
figures() {
  sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2 \3/p' "$1/metrics.jsonl"
  grep -o '"step":[0-9]*,"validation_loss":[^,}]*' "$1/metrics.jsonl"
  sha256sum <"$1/weights.safetensors"
}

start "$work/whole" "$work/whole.log" 1
wait "$job" || die "the job that nobody kills failed: $work/whole.log"
figures "$work/whole" >"$work/whole.txt"
[[ $(grep -c '^[0-9]' "$work/whole.txt") -ge $steps ]] || die "the log of $work/whole has no figures"

kills=0 started=$SECONDS
for ((n = 1; n <= jobs; ++n)); do
  directory=$work/job$n rounds=0
  while :; do
    rounds=$((rounds + 1))
    ((rounds <= 200)) || die "job $n does not get on: $work/job$n.log"
    # shellcheck disable=SC2086  # ranks and settings are words
    start "$directory" "$work/job$n.log" ${layouts[RANDOM % ${#layouts[@]}]}
    # Somewhere between the start and a few saves later.
    sleep "$(awk -v r=$RANDOM 'BEGIN { print 0.4 + 2.6 * r / 32768 }')"
    mapfile -t ranks < <(pgrep -P "$job" -f "$directory" || true)
    if ((${#ranks[@]} > 0)) && kill -KILL "${ranks[RANDOM % ${#ranks[@]}]}" 2>/dev/null; then kills=$((kills + 1)); fi
    code=0
    wait "$job" || code=$?
    if ((code == 0)); then break; fi
  done
  figures "$directory" >"$work/job$n.txt"
  if ! cmp -s "$work/whole.txt" "$work/job$n.txt"; then
    diff "$work/whole.txt" "$work/job$n.txt" | head -5
    die "job $n differs after $rounds rounds (seed $seed)"
  fi
  say "job $n: the same bits after $rounds rounds"
  rm -rf -- "$directory"
done
say "$jobs jobs, $kills kills, $((SECONDS - started)) s: losses, gradient norms and weights equal the unkilled job's"
