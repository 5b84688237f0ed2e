#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains one small model for 20 steps on every kind of layout of 1 to 8 ranks with reproducibility: layout and
# compares each with the run on one rank, bit by bit: the loss and the gradient norm of every step, the weights and the
# optimizer's state. Prints a table; exits with 1 if a layout differs or fails. About two minutes on two cores.
#
#   scripts/layout_matrix.sh [--model M] [--context MODE] [--ranks LIST] [--precision P] [--quick] [--trireme FILE]
#                            [--keep DIR]
#
#   --model M        gpt (default) or another of scripts/small_models.sh; cosmoflow, unet and deepcam with spatial parallelism,
#                    moe shares experts out among tensor and data ranks
#   --context MODE   gather or heads: sequences in 4 blocks, split over context ranks; causal transformers
#   --ranks LIST     rank counts to run, for example 1,2,4 (default: all from 1 to 8); one rank always runs, as the reference
#   --precision P    fp32 (default) or bf16
#   --quick          a dozen layouts instead of all
#   --trireme FILE   the program (default: build/cpu/trireme)
#   --keep DIR       put the run directories and logs there and keep them
#
# The data is generated. Layouts that a family does not support must be refused; the reasons are printed below the table. Needs
# a built program: see scripts/test.sh or scripts/quickstart.sh.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/small_models.sh
source "$(dirname "${BASH_SOURCE[0]}")/small_models.sh"

model=gpt context='' ranks=1,2,3,4,5,6,7,8 precision=fp32 quick=false keep='' trireme=$repository/build/cpu/trireme
read_options "--model --context --ranks --precision --trireme --keep" --quick "$@"
rank_counts=$ranks
[[ $rank_counts =~ ^[1-8](,[1-8])*$ ]] || die "--ranks $rank_counts: give some of 1 to 8, with commas between"
[[ " $small_models " == *" $model "* ]] || die "--model $model: use one of $small_models"
[[ $precision == fp32 || $precision == bf16 ]] || die "--precision $precision: use fp32 or bf16"
[[ $context =~ ^(gather|heads)?$ ]] || die "--context $context: use gather or heads"
need_trireme

# data x tensor/tensor_chunks x pipeline, schedule:chunks, ZeRO/zero_group, sequence, recompute; a star marks the layouts of
# --quick. The first row of a number of tensor chunks, on one rank, is the reference of the others: products of fewer rows
# may have other bits.
layouts() {
  cat <<'ROWS'
1 1 1 1f1b          0 no  none      *
1 1 1 1f1b          0 no  full
1 1 1 1f1b          2 no  selective
2 1 1 1f1b          0 no  none      *
2 1 1 1f1b          1 no  selective
2 1 1 1f1b          2 no  none
2 1 1 1f1b          3 no  full      *
1 2 1 1f1b          0 no  none
1 2 1 1f1b          0 yes none      *
1 2 1 1f1b          1 yes full
1 1 2 gpipe         0 no  none      *
1 1 2 1f1b          0 no  full
1 1 2 interleaved:2 0 no  none      *
1 1 2 interleaved:3 3 no  selective
1 1 2 zero-bubble   0 no  none      *
3 1 1 1f1b          0 no  none      *
3 1 1 1f1b          1 no  full
4 1 1 1f1b          0 no  none
4 1 1 1f1b          2 no  full
4 1 1 1f1b          3 no  none
4 1 1 1f1b          1/2 no none
4 1 1 1f1b          2/2 no full     *
4 1 1 1f1b          3/2 no selective
2 2 1 1f1b          1 yes none
2 2 1 1f1b          3 yes selective *
1 4 1 1f1b          0 no  none
1 4 1 1f1b          2 yes full
1 2 2 gpipe         0 yes selective
1 2 2 zero-bubble   1 yes none
2 1 2 gpipe         2 no  none
2 1 2 1f1b          1 no  none      *
2 1 2 interleaved:2 3 no  full
2 1 2 zero-bubble   1 no  none
1 1 4 gpipe         0 no  full
1 1 4 1f1b          0 no  none
1 1 4 interleaved:2 0 no  none
1 1 4 zero-bubble   0 no  none
5 1 1 1f1b          1 no  selective
3 2 1 1f1b          1 yes none
3 1 2 1f1b          0 no  none
3 1 2 interleaved:2 1 no  full
3 1 2 zero-bubble   1 no  none
6 1 1 1f1b          1/2 no full
7 1 1 1f1b          1 no  none
8 1 1 1f1b          1 no  none
8 1 1 1f1b          3 no  selective
8 1 1 1f1b          1/4 no none
8 1 1 1f1b          2/2 no none
8 1 1 1f1b          3/4 no full
4 2 1 1f1b          1/2 no none
4 2 1 1f1b          3/2 yes selective
4 1 2 interleaved:2 2/2 no none
4 1 2 zero-bubble   1/2 no none
4 2 1 1f1b          2 yes none
4 1 2 1f1b          3 no  none
2 4 1 1f1b          0 no  full
2 4 1 1f1b          3 yes none
2 2 2 1f1b          0 no  none
2 2 2 interleaved:2 2 yes selective *
2 2 2 zero-bubble   1 yes none      *
2 1 4 interleaved:2 1 no  none
2 1 4 1f1b          2 no  full
1 4 2 gpipe         0 yes none
1 2 4 zero-bubble   0 no  none
1 1 8 gpipe         0 no  none
1 1 8 1f1b          1 no  none
1 1/4 1 1f1b        0 no  none
1 2/4 1 1f1b        0 no  none      *
1 4/4 1 1f1b        0 no  full
2 2/4 1 1f1b        2 no  selective
1 2/4 2 zero-bubble 0 no  none
2 2/4 2 interleaved:2 3 no none
ROWS
}

# The same for families with spatial parallelism, in $slabs: ranks along depth, height and width in place of the
# tensor ranks. Those of images are along the height.
spatial_layouts() {
  local images=''
  if [[ $slabs == '[1, '* ]]; then images='s/2,1,1/1,2,1/; s/2,2,1/1,4,1/'; fi
  sed "$images" <<'ROWS'
1 1,1,1 1 1f1b          0 no  none      *
1 1,1,1 1 1f1b          2 no  full
2 1,1,1 1 1f1b          3 no  none
1 2,1,1 1 1f1b          0 no  none      *
1 2,1,1 1 1f1b          1 no  full
1 1,1,1 2 gpipe         0 no  none
3 1,1,1 1 1f1b          1 no  full
2 2,1,1 1 1f1b          2 no  none
2 2,1,1 1 1f1b          3 no  full      *
1 2,2,1 1 1f1b          0 no  none      *
1 2,1,1 2 1f1b          1 no  none      *
1 2,1,1 2 interleaved:2 0 no  full
1 2,1,1 2 gpipe         0 no  none
1 2,1,1 3 1f1b          0 no  none
3 2,1,1 1 1f1b          1 no  none
2 2,2,1 1 1f1b          3 no  none
1 2,2,1 2 1f1b          0 no  full
2 2,1,1 2 1f1b          1 no  none
4 2,1,1 1 1f1b          2/2 no none     *
ROWS
}

# Those of a model with experts: tensor:expert in place of tensor, where data ranks share experts too.
expert_layouts() {
  cat <<'ROWS'
1 1   1 1f1b          0 no  none      *
1 1   1 1f1b          2 no  full
2 1   1 1f1b          1 no  none
2 1:2 1 1f1b          0 no  none      *
2 1:2 1 1f1b          3 no  selective
1 2   1 1f1b          0 yes none      *
1 2   2 zero-bubble   1 yes none
3 1   1 1f1b          1 no  full
4 1:2 1 1f1b          1 no  full
4 1:4 1 1f1b          2 no  none      *
4 1:2 1 1f1b          3/2 no none
4 1:4 1 1f1b          1/2 no selective
2 2:4 1 1f1b          0 no  none      *
2 2:4 1 1f1b          3 yes selective
1 4   1 1f1b          0 yes full
2 1:2 2 gpipe         0 no  selective
2 1:2 2 1f1b          1 no  none
2 1:2 2 interleaved:2 2 no  full
2 1:2 2 zero-bubble   1 no  none      *
8 1:8 1 1f1b          1 no  none
8 1:4 1 1f1b          3/4 no full
4 2:8 1 1f1b          2 yes none
4 2:4 1 1f1b          1 no  full
4 1:4 2 1f1b          1 no  none
2 1:2 4 zero-bubble   0 no  none
2 2:4 2 interleaved:2 2 yes selective *
2 2:4 2 zero-bubble   1 yes none
ROWS
}

# With sequences in 4 blocks: data/context in place of data.
context_layouts() {
  cat <<'ROWS'
1   1   1 1f1b          0 no  none      *
1   1   1 1f1b          2 no  selective
1   1   1 1f1b          3 no  full
2   1   1 1f1b          0 no  none
2   1   1 1f1b          3 no  selective
1/2 1   1 1f1b          2 no  none      *
1/2 1   1 1f1b          3 no  full
1/4 1   1 1f1b          2 no  none      *
1/4 1   1 1f1b          3 no  selective *
1/2 1   2 1f1b          2 no  none
1/2 1   2 gpipe         3 no  selective
1/2 1   2 interleaved:2 2 no  full
1/4 1   2 interleaved:3 2 no  none      *
2/2 1   1 1f1b          2 no  none      *
2/2 1   1 1f1b          3/2 no full
2/2 1   1 1f1b          2/2 no selective
1/2 2   1 1f1b          2 no  none
1/2 2   1 1f1b          3 yes selective *
1   2   1 1f1b          1 yes full
1/4 2   1 1f1b          2 yes none
1/2 2   2 interleaved:2 2 yes selective
1/2 2   2 gpipe         3 yes none      *
2/4 1   1 1f1b          3/4 no none
2/2 2   1 1f1b          2 yes full
4/2 1   1 1f1b          2 no  none
8/1 1   1 1f1b          1 no  none
2/4 1   1 1f1b          2 no  selective *
ROWS
}

make_work layouts
[[ -z $(ls -A -- "$work") ]] || die "--keep $keep: is not empty"
trap 'exit 130' INT TERM

small_model "$model" "$work" "$trireme" 6 64 4 || die "$trireme cannot pack the data"
blocks=auto
if [[ -n $context ]]; then blocks=4; fi
if [[ $context == heads ]]; then tensor_blocks=1; fi # blocks of heads are those of one tensor block
cat >"$work/config.yaml" <<EOF_CONFIG
run: {directory: $work/run}
precision: $precision
reproducibility: layout
model: {$model_keys}
data: {workers: 1, prefetch: 2, $data_keys}
parallel: {tensor_blocks: $tensor_blocks, context_blocks: $blocks, spatial_slabs: ${slabs:-[]}, context_mode: ${context:-auto}, bucket_megabytes: 0.125, timeout_seconds: 60}
train: {steps: 20, global_batch: 16, micro_batch: 2, eval_batches: 2, log_every: 20}
optimizer: {name: adamw, learning_rate: 3e-3}
EOF_CONFIG

# inner_ranks TENSOR: how many share a micro-batch.
inner_ranks() {
  local ranks=${1%%[:/]*}
  echo $((${ranks//,/*}))
}

# data_ranks DATA: with those that share sequences.
data_ranks() {
  if [[ $1 == */* ]]; then echo $((${1%/*} * ${1#*/})); else echo "$1"; fi
}

# train DATA TENSOR PIPELINE SCHEDULE ZERO SEQUENCE RECOMPUTE: into $run, its console into $run.log.
train() {
  local context_ranks=1 chunks=1 sequence=false group=all tensor_chunks=1 inner="parallel.tensor=${2%%[:/]*}" expert=auto
  if [[ $1 == */* ]]; then context_ranks=${1#*/}; fi
  if [[ $2 == *,* ]]; then inner="parallel.spatial=[$2]"; fi
  if [[ $2 == *:* ]]; then expert=${2#*:}; fi
  if [[ $2 == */* ]]; then tensor_chunks=${2#*/}; fi
  if [[ $4 == *:* ]]; then chunks=${4#*:}; fi
  if [[ $5 == */* ]]; then group=${5#*/}; fi
  if [[ $6 == yes ]]; then sequence=true; fi
  mpirun -np $(($(data_ranks "$1") * $(inner_ranks "$2") * $3)) "$trireme" train "$work/config.yaml" --set run.directory="$run" \
    --set parallel.data="${1%/*}" --set parallel.context="$context_ranks" --set "$inner" --set parallel.expert="$expert" --set parallel.tensor_chunks="$tensor_chunks" \
    --set parallel.pipeline="$3" --set parallel.schedule="${4%:*}" --set parallel.chunks="$chunks" \
    --set parallel.zero="${5%/*}" --set parallel.zero_group="$group" --set parallel.sequence="$sequence" \
    --set train.recompute="$7" >"$run.log" 2>&1 </dev/null
}

# The results of $run as the program printed them, and what must not depend on the layout.
loss_of() { sed -n 's/.*final loss .*exact bits \([^)]*\)).*/\1/p' "$run.log"; }
weights_of() { sed -n 's/.*weights xxh3 \([0-9a-f]*\).*/\1/p' "$run.log"; }
results_of() {
  grep -o 'final loss .*' "$run.log"
  grep -v '"warning":' "$run/metrics.jsonl" | grep -oE '"(step|loss|validation_loss|accuracy|grad_norm)":[^,}]*'
}

# Whether the family does not support TENSOR SCHEDULE RECOMPUTE.
refuses() { [[ $model == resnet && ($1 != 1 || $2 == zero-bubble || $3 == selective) ]]; }

# row RANKS LAYOUT SCHEDULE ZERO SEQUENCE RECOMPUTE LOSS WEIGHTS EQUAL
row() { printf '%5s  %-11s  %-13s  %-4s  %-8s  %-9s  %-20s  %-16s  %s\n' "$@"; }

# shellcheck source=launch/mpi_env.sh
source "$repository/launch/mpi_env.sh" 8
say "20 steps of $model in $precision, 8 micro-batches, $tensor_blocks tensor blocks; layouts are data x tensor x pipeline"
row ranks layout schedule ZeRO sequence recompute 'final loss' weights equal

count=0 differing=0 failed=0 refused=0
while read -r d t p schedule zero sequence recompute star; do
  ranks=$(($(data_ranks "$d") * $(inner_ranks "$t") * p)) reference=$work/reference
  if [[ $t == */* ]]; then reference+=-${t#*/}; fi
  if [[ $context == heads && $t != 1 ]]; then continue; fi
  if [[ -e $reference ]]; then
    [[ ,$rank_counts, == *,$ranks,* ]] || continue
    if $quick && [[ $star != '*' ]]; then continue; fi
  fi
  count=$((count + 1))
  run=$work/run-$count
  if [[ -t 2 ]]; then printf '%5s  %s ...' "$ranks" "$d x $t x $p" >&2; fi
  status=0
  train "$d" "$t" "$p" "$schedule" "$zero" "$sequence" "$recompute" || status=$?
  if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
  equal=yes loss=- weights=-
  if ((status == 2)) && refuses "$t" "$schedule" "$recompute"; then
    equal=refused refused=$((refused + 1))
    sed -n 's/.*error: //p' "$run.log" | head -n 1 >>"$work/reasons.txt"
  elif ((status != 0)); then
    equal="failed with $status" failed=$((failed + 1))
    grep -m 1 -A 5 'error: ' "$run.log" >>"$work/failures.txt" || tail -n 20 "$run.log" >>"$work/failures.txt"
    if ((count == 1)); then break; fi
  else
    loss=$(loss_of) weights=$(weights_of)
    results_of >"$run.results" || die "$run.log: the program printed no results"
    if [[ ! -e $reference ]]; then cp -- "$run.results" "$reference"; fi
    if ! cmp -s "$reference" "$run.results"; then
      equal=NO differing=$((differing + 1))
    fi
  fi
  row "$ranks" "$d x $t x $p" "$schedule" "$zero" "$sequence" "$recompute" "$loss" "$weights" "$equal"
done < <(case $context$model in gather* | heads*) context_layouts ;; moe) expert_layouts ;; *) if [[ -n $slabs ]]; then spatial_layouts; else layouts; fi ;; esac)

if ((refused > 0)); then sort "$work/reasons.txt" | uniq -c; fi
if ((failed > 0)); then cat "$work/failures.txt" >&2; fi
say "$((count - differing - failed - refused)) of $count layouts equal, $differing differ, $failed failed, $refused refused, after $SECONDS s"
((differing + failed == 0))
