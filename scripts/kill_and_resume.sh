#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kills training jobs and resumes them under other layouts until they are done; then compares every step's loss and
# gradient norm, the weights and the optimizer's state with those of an undisturbed job, bit by bit. Each kill is
# SIGKILL for a random rank: at a random time after the start, after a random number of steps, or during a checkpoint.
# Prints one line per job; exits with 1 if anything differs.
#
#   scripts/kill_and_resume.sh [--model M] [--context MODE] [--precision P] [--jobs N] [--kills N] [--steps N] [--seed N] [--trireme FILE] [--keep DIR]
#
#   --model M        gpt (default) or another of scripts/small_models.sh
#   --context MODE   gather or heads: sequences in 4 blocks, also cut over ranks; causal transformers
#   --precision P    fp32 (default) or bf16
#   --jobs N         complete jobs (default: 3; 100 take about half an hour on two cores)
#   --kills N        maximum kills of one job; each has at least one (default: 3)
#   --steps N        steps of a job, a multiple of 3 (default: 60)
#   --seed N         seed of the random choices (default: from the clock, and printed)
#   --trireme FILE   the program (default: build/cpu/trireme)
#   --keep DIR       put run directories and logs there and keep them
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/small_models.sh
source "$(dirname "${BASH_SOURCE[0]}")/small_models.sh"

model=gpt context='' precision=fp32 jobs=3 kills=3 steps=60 seed=$(date +%s) trireme=$repository/build/cpu/trireme keep=''
read_options "--model --context --precision --jobs --kills --steps --seed --trireme --keep" "" "$@"
[[ $jobs$kills$steps$seed =~ ^[0-9]+$ ]] || die "--jobs, --kills, --steps and --seed are numbers"
((steps % 3 == 0 && steps > 0)) || die "--steps $steps: checkpoints are written every 3 steps, so it must be a multiple of 3"
[[ " $small_models " == *" $model "* ]] || die "--model $model: use one of $small_models"
[[ $precision == fp32 || $precision == bf16 ]] || die "--precision $precision: use fp32 or bf16"
[[ $context =~ ^(gather|heads)?$ ]] || die "--context $context: use gather or heads"
((kills > 0)) || die "--kills 0: nothing would be tested"
need_trireme
# shellcheck source=launch/mpi_env.sh
source "$repository/launch/mpi_env.sh" 4

make_work kill
RANDOM=$((seed % 32768))
say "seed $seed, $work"

small_model "$model" "$work" "$trireme" 4 32 2 || die "$trireme cannot pack the data"
blocks=auto
if [[ -n $context ]]; then blocks=4 tensor_blocks=1; fi
cat >"$work/config.yaml" <<YAML
run: {seed: 3}
precision: $precision
reproducibility: layout
model: {$model_keys}
data: {workers: 1, $data_keys}
train: {steps: $steps, global_batch: 16, micro_batch: 2, log_every: 1000, eval_every: 20}
optimizer: {name: adamw, learning_rate: 3e-3}
lr_schedule: {name: cosine, warmup_steps: 5}
parallel: {tensor_blocks: $tensor_blocks, context_blocks: $blocks, context_mode: ${context:-auto}, timeout_seconds: 60}
checkpoint: {every_steps: 3, keep: 2}
YAML

# Ranks, then flags.
layouts=(
  "1" "2" "2 parallel.tensor=2" "2 parallel.pipeline=2" "4 parallel.tensor=2" "4 parallel.pipeline=2" "2 parallel.zero=1"
  "2 parallel.zero=2" "4 parallel.zero=3" "4 parallel.tensor=2 parallel.pipeline=2" "4 parallel.zero=1 parallel.zero_group=2"
  "4 parallel.zero=3 parallel.zero_group=2"
)

if [[ -n $context ]]; then
  layouts=("1" "2" "4 parallel.zero=3" "2 parallel.pipeline=2" "2 parallel.context=2 parallel.zero=2"
    "4 parallel.context=4 parallel.zero=3" "4 parallel.context=2 parallel.zero=2" "4 parallel.context=2 parallel.pipeline=2 parallel.zero=2")
fi
if [[ $model == moe ]]; then
  layouts+=("2 parallel.expert=2" "4 parallel.expert=4 parallel.zero=1" "4 parallel.tensor=2 parallel.expert=4"
    "4 parallel.pipeline=2 parallel.expert=2 parallel.zero=3" "4 parallel.expert=2 parallel.zero=3 parallel.zero_group=2")
fi
if [[ $model == resnet ]]; then
  layouts=("1" "2" "2 parallel.pipeline=2" "4 parallel.pipeline=2" "4 parallel.pipeline=4" "2 parallel.zero=1" "2 parallel.zero=2"
    "4 parallel.zero=3" "4 parallel.zero=2 parallel.zero_group=2")
fi

# start DIRECTORY LOG RANKS [SETTING...]: starts a job in the background; $job is its process.
start() {
  local directory=$1 log=$2 ranks=$3 flags=()
  shift 3
  for setting in "$@"; do flags+=(--set "$setting"); done
  mpirun -np "$ranks" "$trireme" train "$work/config.yaml" --set "run.directory=$directory" "${flags[@]}" >>"$log" 2>&1 &
  job=$!
}

# The figures of a run that must not depend on kills and layouts.
figures() {
  sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2 \3/p' "$1/metrics.jsonl"
  grep -o '"step":[0-9]*,"validation_loss":[^,}]*' "$1/metrics.jsonl"
  sha256sum <"$1/weights.safetensors"
}

start "$work/whole" "$work/whole.log" 1
wait "$job" || die "the job that nobody kills failed: $work/whole.log"
figures "$work/whole" >"$work/whole.txt"
[[ $(grep -c '^[0-9]' "$work/whole.txt") -ge $steps ]] || die "the log of $work/whole has no figures"

# False if the job ends first.
until_steps_more() {
  local metrics=$1/metrics.jsonl before more=$2
  before=$(wc -l 2>/dev/null <"$metrics" || echo 0)
  while kill -0 "$job" 2>/dev/null; do
    if (($(wc -l 2>/dev/null <"$metrics" || echo 0) >= before + more)); then return 0; fi
    sleep 0.02
  done
  return 1
}
# This start removed leftovers of earlier ones before its first step.
until_a_save() {
  until_steps_more "$1" 1 || return 1
  local skipped=$2 seen='' found
  while kill -0 "$job" 2>/dev/null; do
    for found in "$1"/checkpoints/step_*.tmp; do
      if [[ -d $found && $found != "$seen" ]]; then
        seen=$found
        if ((skipped-- == 0)); then return 0; fi
      fi
    done
    read -rt 0.001 <&"$never" || true
  done
  return 1
}
# Waits without a process: nothing ever arrives in this pipe.
exec {never}<> <(:)

# Waits for a random moment of the job and kills a random rank; false if the job ends first.
kill_one() {
  local directory=$1 ranks
  case $((RANDOM % 4)) in
    0) sleep "$(awk -v r=$RANDOM 'BEGIN { print 0.2 + 2 * r / 32768 }')" ;;
    1) until_steps_more "$directory" $((1 + RANDOM % 15)) || return 1 ;;
    *) until_a_save "$directory" $((RANDOM % 4)) || return 1 ;;
  esac
  mapfile -t ranks < <(pgrep -P "$job" -f "$directory" || true)
  ((${#ranks[@]} > 0)) && kill -KILL "${ranks[RANDOM % ${#ranks[@]}]}" 2>/dev/null
}

killed=0 in_saves=0 started=$SECONDS
declare -A layouts_used=()
for ((n = 1; n <= jobs; ++n)); do
  directory=$work/job$n log=$work/job$n.log job_kills=0 job_in_saves=0 wanted=$((1 + RANDOM % kills)) history=''
  for ((round = 1; ; ++round)); do
    layout=${layouts[RANDOM % ${#layouts[@]}]}
    layouts_used[$layout]=1 history+="${history:+, }${layout//parallel./}"
    touch "$work/round"
    # shellcheck disable=SC2086  # ranks and settings are words
    start "$directory" "$log" $layout
    struck=false
    if ((round <= wanted)) && kill_one "$directory"; then struck=true; fi
    code=0
    wait "$job" || code=$?
    if $struck && ((code != 0)); then
      job_kills=$((job_kills + 1))
      # Only saves interrupted in this round.
      if [[ -n $(find "$directory" -name 'step_*.tmp' -newer "$work/round" 2>/dev/null) ]]; then job_in_saves=$((job_in_saves + 1)); fi
    fi
    if ((code == 0)); then break; fi
    $struck || die "job $n ended with code $code though nobody killed it: $log (seed $seed)"
  done
  figures "$directory" >"$work/job$n.txt"
  if ! cmp -s "$work/whole.txt" "$work/job$n.txt"; then
    diff "$work/whole.txt" "$work/job$n.txt" | head -5
    die "job $n differs after $history: $directory (seed $seed)"
  fi
  "$trireme" checkpoint inspect "$work/whole" "$directory" >>"$log" 2>&1 ||
    die "job $n: the last checkpoint inspecters after $history: $log (seed $seed)"
  say "job $n: the same bits after $job_kills kills, $job_in_saves inside a save: $history"
  killed=$((killed + job_kills)) in_saves=$((in_saves + job_in_saves))
  rm -rf -- "$directory"
done
say "$jobs jobs, $killed kills ($in_saves inside a save), ${#layouts_used[@]} layouts, $((SECONDS - started)) s:" \
  "losses, gradient norms, weights and optimizer state equal the unkilled job's"
