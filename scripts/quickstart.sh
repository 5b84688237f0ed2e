#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains two models from scratch: installs missing packages, builds, packs real data into HDF5 shards, trains a GPT on
# the King James Bible and a residual CNN on Fashion-MNIST under mpirun, and shows their output. Under 10 minutes on
# two cores; a second call rebuilds and packs nothing and trains at once in new run directories.
#
#   scripts/quickstart.sh [--dir DIR] [--ranks N] [--text FILE...] [--no-install]
#
#   --dir DIR        directory of data and runs (default: quickstart/ in the repository)
#   --ranks N        processes to train with (default: 2, or 1 on a single core)
#   --text FILE...   train the GPT on these files and skip the other data
#   --no-install     install no packages
set -euo pipefail
started=$SECONDS
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

dir=$repository/quickstart ranks=$(($(nproc) < 2 ? 1 : 2)) text=false words=() install=true
read_options "--dir --ranks" "--text --no-install WORDS" "$@"
if $text && [[ ${#words[@]} -eq 0 ]]; then die "--text needs one file or more"; fi
$text || [[ ${#words[@]} -eq 0 ]] || die "${words[0]}: files go behind --text"
texts=()
for file in "${words[@]}"; do texts+=("$(realpath -e -- "$file")") || die "--text $file: there is no such file"; done
[[ $ranks =~ ^[1-9][0-9]*$ ]] || die "--ranks $ranks: is not a positive number"
mkdir -p -- "$dir/data" "$dir/runs" || die "--dir $dir: cannot be created"
directory=$(cd -- "$dir" && pwd)
cd "$repository"

what="the King James Bible and Fashion-MNIST" models="a GPT and a residual CNN"
if [[ ${#texts[@]} -gt 0 ]]; then what=${texts[*]} models="a GPT"; fi
say "what comes, and how long it takes on two cores the first time; what is there already is kept"
if $install; then echo "   install packages that are missing: a minute or two"; fi
cat <<PLAN
   build the program in $repository/build/cpu: 4 minutes
   pack $what into $directory/data: seconds
   train $models on $ranks rank(s) in $directory/runs: 3 minutes
PLAN

say "installing what is missing"
if $install; then
  if [[ ${#texts[@]} -gt 0 ]]; then scripts/install_deps.sh; else scripts/install_deps.sh --data; fi
fi
use_tools

say "building"
if [[ ! -f build/cpu/build.ninja ]]; then run_quietly "cmake --preset cpu" cmake --preset cpu; fi
run_quietly "compiling" cmake --build --preset cpu --target trireme
trireme=$repository/build/cpu/trireme

# packed PATH: a complete, readable data set is there; otherwise it is packed again.
packed() { [[ -d $1 ]] && "$trireme" data inspect "$1" >/dev/null 2>&1; }

pack_text() {
  local out=$1
  shift
  packed "$out/train" && packed "$out/validation" && return
  "$trireme" data pack-text "$@" --out "$out" --validation 0.05 --force
}

pack_fashion() {
  local out=$1 from=/usr/share/datasets/fashion-mnist split files
  local classes="T-shirt,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
  for split in train validation; do
    packed "$out/$split" && continue
    files=train
    if [[ $split == validation ]]; then files=t10k; fi
    [[ -f $from/$files-images-idx3-ubyte.gz ]] || die "$from: Fashion-MNIST is not there; scripts/install_deps.sh --data"
    "$trireme" data pack-images "$from/$files-images-idx3-ubyte.gz" --labels "$from/$files-labels-idx1-ubyte.gz" \
      --out "$out" --split "$split" --class-names "$classes" --force
  done
}

say "packing data into $directory/data"
if [[ ${#texts[@]} -gt 0 ]]; then
  # Other or changed files are another data set.
  text_data=$directory/data/text-$(stat -c '%n %s %Y' -- "${texts[@]}" | cksum | cut -d ' ' -f 1)
  pack_text "$text_data" "${texts[@]}"
else
  text_data=$directory/data/kjv
  if [[ ! -s $directory/data/kjv.txt ]]; then
    command -v bible >/dev/null || die "the program 'bible' is not there; scripts/install_deps.sh --data"
    bible -f gen1:1-rev22:21 >"$directory/data/kjv.txt.tmp"
    mv "$directory/data/kjv.txt.tmp" "$directory/data/kjv.txt"
  fi
  pack_text "$text_data" "$directory/data/kjv.txt"
  pack_fashion "$directory/data/fashion"
fi

# Sets `run` to the first free DIR/runs/NAME-<n>.
next_run() {
  local n=1
  while [[ -e $directory/runs/$1-$n ]]; do n=$((n + 1)); done
  run=$directory/runs/$1-$n
}

# global_batch FILE: the config's global batch, rounded up to a multiple of the ranks.
global_batch() {
  local global micro together
  global=$(awk '$1 == "global_batch:" { print $2 }' "$1")
  micro=$(awk '$1 == "micro_batch:" { print $2 }' "$1")
  together=$((micro * ranks))
  echo $((global + (together - global % together) % together))
}

# train CONFIG DATA: in a new run directory, with rank 0's console on this terminal. Each rank computes its share of the
# global batch as one micro-batch of at most 32 samples.
train() {
  local global share
  global=$(global_batch "$1")
  share=$((global / ranks))
  while [[ $share -gt 32 ]]; do share=$((share / 2)); done
  mpirun -np "$ranks" "$trireme" train "$1" --set data.path="$2/train" --set data.validation_path="$2/validation" \
    --set run.directory="$run" --set train.global_batch="$global" --set train.micro_batch="$share" </dev/null
}

# last_value KEY: the last value in metrics.jsonl.
last_value() { sed -n "s/.*\"$1\":\([0-9.eE+-]*\).*/\1/p" "$run/metrics.jsonl" | tail -n 1; }

# shellcheck source=launch/mpi_env.sh
source launch/mpi_env.sh "$ranks"
results=()

next_run gpt
say "training a GPT on $ranks ranks: $run"
train configs/gpt_tiny.yaml "$text_data"
say "text that the GPT wrote"
prompt=$'\n'
if [[ ${#texts[@]} -eq 0 ]]; then prompt="In the beginning"; fi
"$trireme" generate "$run" --prompt "$prompt" --tokens 400 --temperature 0.8 --top-k 40 --seed 1
results+=("$(printf 'GPT       validation loss %.3f nats per byte   %s' "$(last_value validation_loss)" "$run")")

if [[ ${#texts[@]} -eq 0 ]]; then
  next_run resnet
  say "training a residual CNN on $ranks ranks: $run"
  train configs/resnet_fashion.yaml "$directory/data/fashion"
  accuracy=$(last_value accuracy)
  results+=("$(awk -v a="$accuracy" -v r="$run" 'BEGIN { printf "ResNet    test accuracy %.2f %%               %s", 100 * a, r }')")
fi

say "results, after $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s in all"
printf '   %s\n' "${results[@]}"
