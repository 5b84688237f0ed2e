#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# campaign_mpirun_test.sh TRIREME: a campaign by mpirun on this host whose rank is killed, then the campaign, and whose layout
# changes in between: the bits are those of one job.
# shellcheck disable=SC2317  # functions that are called by name
set -u
trireme=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/launch/campaign/support.sh
source "$here/support.sh"
command -v mpirun >/dev/null || {
  echo "skipped: there is no mpirun"
  exit 77
}
place=$(mktemp -d)
mkdir "$place/disk"
trap 'umount -l "$place/disk" 2>/dev/null; rm -rf "$place"' EXIT
export TRIREME_HOME TRIREME_END_SECONDS=3
TRIREME_HOME=$(cd "$here/../../.." && pwd)
log=$place/log
head -c 20000 /dev/urandom | base64 >"$place/text.txt"
"$trireme" data pack-text "$place/text.txt" --out "$place/data" --quiet || exit 1
cat >"$place/config.yaml" <<YAML
run: {seed: 7}
device: {type: cpu}
precision: fp32
reproducibility: layout
model: {family: gpt2, layers: 2, hidden: 16, heads: 2, context: 16, vocabulary: 256}
data: {path: $place/data}
train: {steps: 60, global_batch: 8, micro_batch: 1, log_every: 1000}
checkpoint: {every_steps: 5}
YAML
cat >"$place/campaign.yaml" <<YAML
config: $place/config.yaml
directory: $place/camp
hosts: [localhost]
ranks_per_node: 2
layouts: [data=2]
failures: {backoff_seconds: 0.1}
poll_seconds: 0.2
YAML
run=$place/camp/run
ranks() { pgrep -f "^$trireme train .*run.directory=$run "; }
has_checkpoint() { compgen -G "$run/checkpoints/step_*[05]" >/dev/null; }

case="a health check comes first, and ends a job that fails it"
printf '#!/bin/sh\necho "$@" >>"%s/started_as"\n[ "$1" != doctor ] || exit "$(cat "%s/health")"\nexit 75\n' "$place" "$place" >"$place/launcher"
chmod +x "$place/launcher"
for health in 2 0; do
  mkdir "$place/attempt$health"
  echo $health >"$place/health"
  "$here/../../../launch/campaign/cluster/attempt.sh" "$place/attempt$health" check "$place/launcher" -- config.yaml --set a=b >"$log" 2>&1
  code=$?
  expect_code $((health == 0 ? 75 : 5))
  [[ $(cut -d ' ' -f 1 "$place/attempt$health/ended") == "$code" ]] || complain "the code in its file"
done
expect_equal "$(paste -sd ';' "$place/started_as")" "doctor config.yaml --set a=b;doctor config.yaml --set a=b;train config.yaml --set a=b" "what was started"

case="a rank is killed"
start
soon has_checkpoint
# Endless until then: stopped ranks make no steps.
kill -KILL "$(ranks | tail -n 1)" || complain "a rank to kill"
soon grep -q 'job 1 ended with code 5' "$log"
expect_text 'localhost: rank [01] ended by signal.*; it is still used, because nodes.min = 1'
case="the campaign is killed, and its next start has another layout"
soon grep -q 'job 2 runs on localhost' "$log"
kill_campaign
[[ -n $(ranks) ]] || soon ranks >/dev/null
sed -i 's/layouts: .*/layouts: [pipeline=2]/' "$place/campaign.yaml"
start
finish
expect_code 0
[[ $(find "$place/camp/attempts" -name started | wc -l) -eq 2 ]] || complain "two jobs"
expect_text 'goodput '

case="the bits of one job"
"$trireme" train "$place/config.yaml" --set "run.directory=$place/whole" >"$place/whole.log" 2>&1
expect_equal "$(sha256sum <"$run/weights.safetensors")" "$(sha256sum <"$place/whole/weights.safetensors")" "weights"

case="started again with settings of another model, it ends at the first job"
sed -i 's/steps: 60/steps: 70/; s/hidden: 16/hidden: 32/' "$place/config.yaml"
start
finish
expect_code 4
expect_text 'job 3 ended with code 4 .* is of another model or optimizer than the config: [a-z]'
expect_text 'failed: starting again would not help'

# Only root can mount such a small disk.
if mount -t tmpfs -o size=16m tmpfs "$place/disk" 2>/dev/null; then
  case="a campaign that is started on a full disk waits for room"
  sed -i "s|directory: .*|directory: $place/disk/camp|" "$place/campaign.yaml"
  cat /dev/zero >"$place/disk/filler" 2>/dev/null
  start
  soon grep -q 'the disk is full.*; waiting for free space\|No space left.*; waiting for free space' "$log"
  rm "$place/disk/filler"
  finish
  expect_code 0
fi
exit $failed
