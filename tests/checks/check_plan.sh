#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the planner's predictions on this machine. Calibrates it (trireme bench machine), trains a small model on
# layouts of 1, 2 and 4 ranks, and compares the step time that `trireme plan` predicts for each with the measured one.
# Prints a table. Exits with 1 if a prediction is off by more than the tolerance, or if the planner orders two layouts
# wrongly although their measured times differ by more than it. Needs a quiet machine: three minutes on two cores.
#
#   tests/checks/check_plan.sh [--model gpt|cnn] [--tolerance PERCENT] [--rounds N] [--steps N] [--trireme FILE] [--keep DIR]
#
#   --model gpt|cnn      the model: a GPT of 1.8 M parameters or a ResNet of 0.3 M (default: gpt)
#   --tolerance PERCENT  largest error of a prediction (default: 15)
#   --rounds N           rounds of calibration and runs, alternating; the fastest lower quartile counts (default: 2)
#   --steps N            steps of each run, without the first fifth (default: 30)
#   --trireme FILE       the program (default: build/cpu/trireme)
#   --keep DIR           put hardware file, plans and runs there and keep them
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

model=gpt tolerance=15 rounds=2 steps=30 keep='' trireme=$repository/build/cpu/trireme
read_options "--model --tolerance --rounds --steps --trireme --keep" "" "$@"
[[ $model == gpt || $model == cnn ]] || die "--model $model: allowed are gpt and cnn"
for count in "$tolerance" "$rounds" "$steps"; do
  [[ $count =~ ^[1-9][0-9]*$ ]] || die "$count: give a whole number from 1 on"
done
need_trireme

make_work plan
# shellcheck source=launch/mpi_env.sh
source "$repository/launch/mpi_env.sh" 4

# Name, ranks, settings.
layouts() {
  cat <<'ROWS'
one                1
micro-batch-4      1 train.micro_batch=4
data-2             2 parallel.data=2
data-2-zero-1      2 parallel.data=2 parallel.zero=1
data-2-zero-3      2 parallel.data=2 parallel.zero=3
pipeline-2         2 parallel.pipeline=2
data-4             4 parallel.data=4
data-2-pipeline-2  4 parallel.data=2 parallel.pipeline=2
pipeline-4         4 parallel.pipeline=4
ROWS
  # Convolutions are not split.
  [[ $model == gpt ]] || return 0
  cat <<'ROWS'
recompute-full     1 train.recompute=full
tensor-2           2 parallel.tensor=2
data-2-tensor-2    4 parallel.data=2 parallel.tensor=2
ROWS
}

prepare_gpt() {
  head -c 2000000 <(cat "$repository"/*/*.cpp "$repository"/*/*/*.cpp) >"$work/text"
  "$trireme" data pack-text "$work/text" --out "$work/data/train" --force --quiet >/dev/null
  echo "model: {family: gpt2, layers: 4, hidden: 192, heads: 8, context: 64, vocabulary: 256}"
}

# 2,048 images of 32 x 32 noise in the IDX format (Y. LeCun), all of class 0.
prepare_cnn() {
  { printf '\x00\x00\x08\x03\x00\x00\x08\x00\x00\x00\x00\x20\x00\x00\x00\x20' && head -c $((2048 * 32 * 32)) /dev/urandom; } \
    >"$work/images"
  { printf '\x00\x00\x08\x01\x00\x00\x08\x00' && head -c 2048 /dev/zero; } >"$work/labels"
  "$trireme" data pack-images "$work/images" --labels "$work/labels" --classes 10 --out "$work/data" --split train --force \
    --quiet >/dev/null
  echo "model: {family: resnet, block: basic, stem: small, stages: [1, 1, 1], width: 32, image_size: 32, channels: 1, classes: 10}"
}

options() { printf -- '--set %s ' "$@"; }

description=$("prepare_$model")
cat >"$work/model.yaml" <<CONFIG
precision: fp32
$description
data: {path: $work/data/train}
train: {steps: $steps, global_batch: 16, micro_batch: 2, log_every: 1000}
CONFIG

say "load of the machine: $(cut -d ' ' -f 1-3 /proc/loadavg); it should be below 1"
# Other load is reported and judged like the rest: runs and calibrations alternate, and the fastest count.
for ((round = 1; round <= rounds; ++round)); do
  mpirun -np 2 "$trireme" bench machine "$work/model.yaml" --seconds 4 --accept-load --out "$work/hardware.$round.yaml" \
    >"$work/bench.$round.log" 2>&1 || die "the calibration failed: $(tail -n 3 "$work/bench.$round.log")"
  while read -r name ranks settings; do
    # shellcheck disable=SC2046,SC2086
    mpirun -np "$ranks" "$trireme" train "$work/model.yaml" --set run.directory="$work/$name.$round" \
      ${settings:+$(options $settings)} >"$work/$name.$round.log" 2>&1 </dev/null ||
      die "$name failed: $(tail -n 3 "$work/$name.$round.log")"
  done < <(layouts)
  grep -h "other processes disturbed" "$work/bench.$round.log" >&2 || true
  say "round $round of $rounds: done after $SECONDS s"
done

for ((round = 1; round <= rounds; ++round)); do
  while read -r name ranks settings; do
    # shellcheck disable=SC2046,SC2086
    "$trireme" plan "$work/model.yaml" --ranks "$ranks" --nodes 1 --hardware "$work/hardware.$round.yaml" \
      --json "$work/$name.$round.json" ${settings:+$(options $settings)} >"$work/$name.plan.log" 2>&1 ||
      die "the plan of $name failed: $(tail -n 3 "$work/$name.plan.log")"
  done < <(layouts)
done

layouts | python3 "$repository/tests/checks/compare_plan.py" "$work" "$rounds" "$tolerance"
