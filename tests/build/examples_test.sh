#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples_test.sh PREFIX: launch/examples, built by a user against an installed Trireme: each program's loss falls,
# with the same digits on one rank and on two; a program resumes; a wrong config ends it with the message and code 2.
set -euo pipefail
readonly prefix=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-examples.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
  echo "examples_test.sh: $*" >&2
  exit 1
}
cp -r "$prefix/share/trireme/examples" "$work/examples"
cd "$work"
cmake -S examples -B build -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >log 2>&1 ||
  fail "find_package: $(tail -n 20 log)"
cmake --build build >log 2>&1 || fail "the examples do not build: $(grep -m 5 -E 'error|FAILED' log)"

awk 'BEGIN { for (i = 0; i < 2000; ++i) print "In the beginning was line " i ", and it was like line " i % 7 "." }' >book.txt
"$prefix/bin/trireme" data pack-text --out book --validation 0.05 book.txt >/dev/null
text=(data.path=book/train data.validation_path=book/validation)

# run NAME RANKS ARGUMENTS...: writes its losses to NAME.RANKS.
run() {
  local name=$1 ranks=$2
  shift 2
  "$prefix/share/trireme/launch/mpi_run.sh" -np "$ranks" "build/$name" examples/gpt.yaml "run.directory=runs/$name.$ranks" "$@" >"$name.$ranks.out" 2>&1 ||
    fail "$name on $ranks ranks ends with $?: $(tail -n 5 "$name.$ranks.out")"
  grep -E '^(step|validation) ' "$name.$ranks.out" >"$name.$ranks"
}
# loss_falls NAME STEPS SHARE: to below SHARE of the first.
loss_falls() {
  awk -v steps="$2" -v share="$3" '$1 == "step" { loss = $4; if (++count == 1) first = loss }
    END { if (count != steps || !(loss < share * first)) { print count " steps from " first " to " loss; exit 1 } }' "$1.1" || fail "$1: the loss does not fall"
  cmp "$1.1" "$1.2" || fail "$1: one rank and two differ"
}

for ranks in 1 2; do
  run train_gpt $ranks "${text[@]}" train.steps=20
  run add_layer $ranks "${text[@]}" train.steps=20 "parallel.pipeline=$ranks"
  run custom_data $ranks
done
loss_falls train_gpt 20 0.8
loss_falls add_layer 20 0.8
loss_falls custom_data 40 0.7
[[ $(grep -c '^validation' train_gpt.1) == 2 ]] || fail "train_gpt evaluated $(grep -c '^validation' train_gpt.1) times and not 2"
grep -q 'right' custom_data.2.out || fail "custom_data tells no accuracy"
"$prefix/bin/trireme" report runs/custom_data.2 | grep -qE '^state +finished' || fail "report: custom_data did not end well"
grep -q 'adapter.expand.weight' weights.safetensors || fail "the adapter's weights are not written"

# It saved its best: the program resumes from there.
cp train_gpt.1 before
run train_gpt 1 "${text[@]}" train.steps=22
[[ $(grep -c '^step' train_gpt.1) == 2 ]] || fail "train_gpt does not go on at step 21: $(cat train_gpt.1)"

code=0
build/train_gpt examples/gpt.yaml model.heads=5 "${text[@]}" >wrong 2>&1 || code=$?
[[ $code == 2 && $(cat wrong) == *model.heads* ]] || fail "a wrong config ends with $code: $(cat wrong)"
