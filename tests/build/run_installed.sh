#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_installed.sh PREFIX PLACE [short]: uses an installed Trireme with an empty environment: some steps of the
# quickstart's two configs by each launch script, from the directory PLACE. Needs no repository; bash, awk, gzip,
# mpirun. short: one config by one script.
set -euo pipefail
if [[ ${TRIREME_CLEAN:-} != yes ]]; then
  exec env -i TRIREME_CLEAN=yes PATH=/usr/local/bin:/usr/bin:/bin HOME="$2" TMPDIR="${TMPDIR:-/tmp}" bash "$0" "$@"
fi
readonly prefix=$1 place=$2 share=$1/share/trireme
fail() {
  echo "run_installed.sh: $*" >&2
  exit 1
}
mkdir -p "$place"
cd "$place"

# loss_falls RUN STEPS: all steps exist, and the last losses are below the first.
loss_falls() {
  sed -n 's/.*"step":\([0-9]*\),.*"loss":\([0-9.e+-]*\).*/\2/p' "$1/metrics.jsonl" >"$1.losses"
  [[ $(wc -l <"$1.losses") == "$2" ]] || fail "$1: $(wc -l <"$1.losses") losses and not $2"
  awk -v steps="$2" 'NR == 1 { first = $1 } { last = $1 } END { exit !(last < 0.97 * first) }' "$1.losses" ||
    fail "$1: the loss does not fall: $(paste -sd ' ' "$1.losses")"
}

awk 'BEGIN { for (i = 0; i < 2000; ++i) print "In the beginning was line " i ", and it was like line " i % 7 "." }' >book.txt
"$prefix/bin/trireme" data pack-text --out text --validation 0.05 book.txt >/dev/null
# 64 images of 28 x 28 in two classes, black and white, in the files that Fashion-MNIST comes in.
{
  printf '\0\0\10\3\0\0\0\100\0\0\0\34\0\0\0\34'
  for ((i = 0; i < 64; ++i)); do head -c 784 /dev/zero | tr '\0' "$((i % 2 ? 7 : 0))"; done
} | gzip >images.gz
{
  printf '\0\0\10\1\0\0\0\100'
  for ((i = 0; i < 32; ++i)); do printf '\0\1'; done
} | gzip >labels.gz
for split in train validation; do
  "$prefix/bin/trireme" data pack-images images.gz --labels labels.gz --out images --split $split --class-names dark,light >/dev/null
done

gpt=(train "$share/configs/gpt_tiny.yaml" --set data.path=text/train --set data.validation_path=text/validation --set model.layers=2
  --set model.hidden=32 --set model.context=64 --set train.steps=12 --set lr_schedule.warmup_steps=1 --set checkpoint.every_steps=6)
# `trireme` is not in PATH: the scripts find the program installed with them.
"$share/launch/mpi_run.sh" -np 2 trireme "${gpt[@]}" --set run.directory=mpi
loss_falls mpi 12
if [[ ${3:-} == short ]]; then exit 0; fi
"$share/launch/tcp_run.sh" 2 trireme "${gpt[@]}" --set run.directory=tcp
loss_falls tcp 12
cmp mpi.losses tcp.losses || fail "losses under mpirun and over TCP differ"
"$share/launch/supervise.sh" -- "$share/launch/mpi_run.sh" -np 2 trireme "${gpt[@]}" --set run.directory=supervised
cmp mpi.losses <(sed -n 's/.*"loss":\([0-9.e+-]*\).*/\1/p' supervised/metrics.jsonl) || fail "the supervised run has other losses"
"$share/launch/mpi_env.sh" 2 mpirun -np 2 trireme train "$share/configs/resnet_fashion.yaml" --set data.path=images/train \
  --set data.validation_path=images/validation --set model.width=8 --set 'model.stages=[1,1]' --set 'data.mean=[0.5]' \
  --set train.global_batch=16 --set train.micro_batch=8 --set train.steps=8 --set lr_schedule.warmup_steps=1 --set run.directory=resnet
loss_falls resnet 8
"$prefix/bin/trireme" generate mpi --prompt "In the" --tokens 8 >/dev/null
"$prefix/bin/trireme" plan "$share/configs/gpt2_124m.yaml" --ranks 8 --hardware "$share/configs/hardware/h100.yaml" | grep -q 'ms' ||
  fail "plan says no time"
# The missing back end is refused by name: its weak symbols stay null.
if ! "$prefix/bin/trireme" --version | grep -qi cuda; then
  code=0
  "$prefix/bin/trireme" "${gpt[@]}" --set run.directory=gpu --set device.type=cuda >refused 2>&1 || code=$?
  [[ $code == 2 && $(cat refused) == *cuda* ]] || fail "device.type=cuda ends with $code: $(cat refused)"
fi
# A study finds launch/mpi_run.sh from the program's place.
"$prefix/bin/trireme" scale "${gpt[@]:1}" --ranks 2 --repeats 1 --steps 4 --warmup 1 --out study >study.log 2>&1 || fail "scale: $(tail -n 5 study.log)"
[[ -s study/scaling.html ]] || fail "scale wrote no report"
echo "run_installed.sh: $("$prefix/bin/trireme" --version | head -n 1) works from $prefix"
