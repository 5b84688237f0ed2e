#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# campaign_slurm_test.sh TRIREME: campaigns under commands that behave like Slurm's (fake_slurm.sh), whose jobs end as a plan
# says. The real Slurm is in tests/slurm.
# shellcheck disable=SC2317  # functions that are called by name
set -u
trireme=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/launch/campaign/support.sh
source "$here/support.sh"
root=$(mktemp -d)
# Also ends jobs of a plan that are still running.
trap 'pkill -KILL -f "^bash $root/bin/sbatch "; rm -rf "$root"' EXIT
trap 'exit 1' INT TERM
mkdir "$root/bin"
for name in sinfo sbatch squeue scontrol scancel; do ln -s "$here/fake_slurm.sh" "$root/bin/$name"; done
# Nor this machine's accounting.
printf '#!/bin/sh\nexit 1\n' >"$root/bin/sacct"
chmod +x "$root/bin/sacct"
export PATH=$root/bin:$PATH TRIREME_HOME
TRIREME_HOME=$(cd "$here/../../.." && pwd)
printf 'model: {family: gpt2, layers: 1, hidden: 16, heads: 2, context: 16}\ndevice: {type: cpu}\ndata: {path: none}\nreproducibility: layout\ntrain: {steps: 9, global_batch: 8, micro_batch: 1}\n' \
  >"$root/config.yaml"

# begin NAME PLAN [LINES]: starts a separate campaign.
begin() {
  case=$1 place=$root/$1
  mkdir -p "$place"
  export FAKE_SLURM=$place/slurm
  mkdir "$FAKE_SLURM"
  printf '%s' "$2" >"$FAKE_SLURM/plan"
  log=$place/log
  : >"$log"
  cat >"$place/campaign.yaml" <<YAML
config: $root/config.yaml
directory: $place/camp
nodes: {min: 1, max: 4}
failures: {backoff_seconds: 0.02, exclude_hours: 1, no_progress: 3}
poll_seconds: 0.1
${3:-}
YAML
}
submissions() { [[ $(wc -l <"$FAKE_SLURM/calls" 2>/dev/null || echo 0) -eq $1 ]] || complain "$1 submissions, got $(cat "$FAKE_SLURM/calls")"; }
said() { grep -q "$1" "$log"; }

begin goes_on $'3 75\n5 5 [rank 1/4 n2] error: ended by signal 9 (Killed), and the job with it\n9 0\n'
start
finish
expect_code 0
submissions 3
expect_text 'job 1 .*4 nodes as data=4 from step 0'
expect_text 'job 2 ended with code 5 at step 5: ended by signal 9'
expect_text 'n2 is left out for 1 h: rank 1 ended by signal 9'
expect_text 'job 3 .*2 nodes as data=2 from step 5'
expect_text 'final loss 1 \(exact bits 0x1p\+0\), weights xxh3 abc'
expect_text '^goodput '
sed -n 3p "$FAKE_SLURM/calls" | grep -q -- '--exclude=n2 ' || complain "the third job without n2: $(cat "$FAKE_SLURM/calls")"
[[ -s $place/camp/status.html ]] || complain "a status page"
start
finish
expect_code 0
submissions 3
"$trireme" campaign status "$place/camp" >"$place/status" 2>&1 || complain "a status: $(cat "$place/status")"
grep -q 'done: the run is complete' "$place/status" || complain "a status that says done: $(cat "$place/status")"

begin killed_within_sbatch $'9 0\n'
touch "$FAKE_SLURM/gate"
start
soon test -e "$FAKE_SLURM/submitted"
kill_campaign
start
soon said 'is still running'
rm "$FAKE_SLURM/gate"
finish
expect_code 0
submissions 1

begin killed_while_a_job_runs $'3 wait\n9 0\n'
start
soon test -e "$FAKE_SLURM/waiting.1"
soon said 'job 1 runs'
kill_campaign
start
begun() { [[ $(grep -c 'campaign [0-9a-f]* of' "$log") -eq 2 ]]; }
soon begun
timeout 20 "$trireme" campaign "$place/campaign.yaml" >"$place/second" 2>&1
code=$?
expect_code 2
grep -q "is in use by process" "$place/second" || complain "a second process to be refused: $(cat "$place/second")"
submissions 1
"$trireme" campaign stop "$place/campaign.yaml" >>"$log" 2>&1
finish
expect_code 75
submissions 1
grep -q -- '--batch --signal=TERM 1' "$FAKE_SLURM/cancels" || complain "the job to be told"
expect_text 'job 1 ended with code 75 at step 3: as requested'
start
finish
expect_code 0
submissions 2

# sbatch fails without a message of the controller; the job exists.
begin doubtful_answer $'9 0\n'
touch "$FAKE_SLURM/silent"
start
finish
expect_code 0
submissions 1
expect_text 'Socket timed out.*looking for it'

begin refused_account $'9 0\n'
echo 'Invalid account or account/partition combination specified' >"$FAKE_SLURM/refusal"
start
finish
expect_code 2
expect_text 'Invalid account .*set slurm.account'
[[ ! -e $FAKE_SLURM/calls ]] || complain "no submission"

begin account_without_budget $'3 pending AssocGrpCPUMinutesLimit\n9 0\n'
start
finish
expect_code 2
submissions 1
expect_text 'slurm: it would never start: PENDING \(AssocGrpCPUMinutesLimit\); the account has no budget left'
start
finish
expect_code 0
submissions 2

begin full_queue_and_no_controller $'3 75\n9 0\n'
echo "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)" >"$FAKE_SLURM/refusal"
start
soon said 'no offer of enough nodes: .*job submit limit'
touch "$FAKE_SLURM/down"
rm "$FAKE_SLURM/refusal"
soon said 'Unable to contact'
rm "$FAKE_SLURM/down"
finish
expect_code 0
submissions 2

begin no_progress $'3 5\n3 5\n3 5\n3 5\n3 5\n3 5\n3 5\n'
start
finish
expect_code 93
submissions 4
expect_text 'given up: 3 jobs in a row left no newer checkpoint'
# Restarting it is another try.
start
finish
expect_code 93
submissions 7

begin an_error_that_comes_again $'3 6 [rank 0/4 n1] error: the loss is nan\n'
start
finish
expect_code 6
submissions 1
expect_text 'failed: starting again would not help: the loss is nan'

# The lost host is the only one.
begin forgiven $'3 5 [rank 0/1 n1] error: ended by signal 9 (Killed)\n9 0\n'
echo n1 >"$FAKE_SLURM/nodes"
start
finish
expect_code 0
expect_text 'n1 is left out'
expect_text 'n1 is no longer left out: nothing can run without it'

# More nodes become free; the job gives way to one on all of them.
begin better_offer $'3 wait\n9 0\n' 'better: {gain: 1, after_minutes: 0}'
echo n1 >"$FAKE_SLURM/idle"
# Enough steps that a restart is worth it.
sed -i 's/^config: .*/&\nset: [train.steps=100000]/' "$place/campaign.yaml"
start
soon test -e "$FAKE_SLURM/waiting.1"
echo n1 n2 n3 n4 >"$FAKE_SLURM/idle"
finish
expect_code 0
expect_text 'job 1 is stopped: 4 nodes as data=4 would need'
expect_text 'job 2 .*4 nodes as data=4 from step 3'

# The next start reads both again.
begin budget $'3 wait\n' 'budget: {end: "2099-01-01T00:00:00Z"}'
start
soon test -e "$FAKE_SLURM/waiting.1"
soon said 'job 1 runs'
kill_campaign
sed -i 's/^budget: .*/budget: {node_hours: 0.0001}/' "$place/campaign.yaml"
start
finish
expect_code 75
submissions 1
expect_text 'out of budget: 0.00 of 0.0001 node-hours are used'
expect_text 'job 1 ended with code 75 at step 3'
sed -i 's/^budget: .*/budget: {end: "2020-01-01T00:00:00Z"}/' "$place/campaign.yaml"
start
finish
expect_code 75
submissions 1
expect_text 'past its end: budget.end is reached'

begin no_slurm ''
PATH=/nowhere "$trireme" campaign "$place/campaign.yaml" >>"$log" 2>&1
code=$?
expect_code 2
expect_text "there is no sbatch in PATH; load Slurm's module, or name hosts"
exit $failed
