#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs campaigns (launch/campaign) on virtual clusters of four nodes with random faults: nodes vanish and return, links
# are cut, jobs preempted, nodes drained, ranks killed, the disk fills up, the campaign's process is killed and
# restarted. All must end with the weights of an undisturbed job. Prints a line per campaign; exits with 1 if anything
# differs.
#
#   scripts/campaigns.sh [--campaigns N] [--events N] [--steps N] [--seed N] [--trireme FILE] [--keep DIR] [--launcher WHICH]
#
#   --campaigns N     number of campaigns (default: 4)
#   --events N        faults in each (default: 4)
#   --steps N         steps of a campaign, a multiple of 5 (default: 300)
#   --seed N          seed of the random choices (default: from the clock, and printed)
#   --trireme FILE    the program (default: build/cpu/trireme)
#   --keep DIR        put directories and logs there and keep them
#   --launcher WHICH  slurm, hosts (mpirun), or both: half of the campaigns each, in parallel on separate clusters (default)
#
# Needs root and, except for hosts, a virtual Slurm (tests/slurm/vslurm.sh).
# shellcheck disable=SC2317  # functions that are called by name
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

campaigns=4 events=4 steps=300 seed=$(date +%s) trireme=$repository/build/cpu/trireme keep='' launcher=both
read_options "--campaigns --events --steps --seed --trireme --keep --launcher" "" "$@"
[[ $campaigns$events$steps$seed =~ ^[0-9]+$ ]] || die "--campaigns, --events, --steps and --seed are numbers"
((steps > 0 && steps % 5 == 0)) || die "--steps $steps: checkpoints are written every 5 steps, so it must be a multiple of 5"
[[ $launcher =~ ^(slurm|hosts|both)$ ]] || die "--launcher $launcher: use slurm, hosts or both"
need_trireme
# shellcheck source=tests/hosts/network.sh
source "$repository/tests/hosts/network.sh"
lacks=$(network_lacks)
[[ -z $lacks ]] || die "no virtual cluster here: $lacks"
[[ $launcher == hosts ]] || command -v slurmctld >/dev/null || die "there is no slurmctld; scripts/install_deps.sh --slurm installs it"

work=${keep:-$(mktemp -d "${TMPDIR:-/tmp}/trireme-campaigns.XXXXXX")}
mkdir -p "$work/disk"
work=$(realpath -- "$work")

# Summary of the campaigns' lines in files: number, jobs, goodput, and count of each fault.
summary() {
  awk -v goodputs="$(grep -ohP 'goodput \K[0-9.]+(?= %)' "$@" | sort -g)" -v all="$campaigns" -v seconds="$SECONDS" -v seed="$seed" '
    / the same weights after / {
      ++equal
      match($0, /after [0-9]+ jobs/); jobs += substr($0, RSTART + 6, RLENGTH - 11)
      split("campaign killed|lost|cut off|disk full|rank killed|preempted|drained", events, "|")
      for (i in events) { line = $0; count[events[i]] += gsub(events[i], "", line) }
    }
    END {
      known = split(goodputs, goodput, "\n")
      printf "== %d of %d campaigns with the same weights, %d jobs, %d s, goodput %s to %s %%, median %s %%, seed %s\n", equal, all, jobs,
        seconds, goodput[1], goodput[known], goodput[int((known + 1) / 2)], seed
      text = "== went wrong:"
      for (e in count) { text = text sep " " e " " count[e]; sep = "," }
      print text
    }' "$@"
}

# Both in parallel: a campaign mostly waits.
run_both() {
  local lane lanes=() code=0
  "$0" --launcher slurm --campaigns $(((campaigns + 1) / 2)) --keep "$work/slurm" "$@" > >(tee "$work/slurm.txt") 2>&1 &
  lanes+=($!)
  "$0" --launcher hosts --campaigns $((campaigns / 2)) --keep "$work/hosts" "$@" > >(tee "$work/hosts.txt") 2>&1 &
  lanes+=($!)
  trap 'kill -s TERM "${lanes[@]}" 2>/dev/null; wait; exit 1' INT TERM
  for lane in "${lanes[@]}"; do wait "$lane" || code=1; done
  summary "$work/slurm.txt" "$work/hosts.txt"
  if ((code == 0)) && [[ -z $keep ]]; then rm -rf -- "$work"; fi
  exit "$code"
}
if [[ $launcher == both ]] && ((campaigns > 1)); then run_both --events "$events" --steps "$steps" --seed "$seed" --trireme "$trireme"; fi
[[ $launcher != both ]] || launcher=slurm

campaign=0
end_all() {
  local code=$?
  ((campaign == 0)) || kill -KILL "$campaign" 2>/dev/null || true
  if [[ $launcher == slurm ]]; then
    "$repository/tests/slurm/vslurm.sh" down "$work/cluster" 2>/dev/null || true
  else
    network_down "$work/cluster"
  fi
  pkill -KILL -f "^bash $repository/launch/campaign/cluster/attempt.sh $work/" || true
  # Keeps the files of a failure.
  if ((code != 0)) || [[ -n $keep ]]; then cp -r "$work/disk" "$work/copy" 2>/dev/null || true; fi
  umount -l "$work/disk" 2>/dev/null || true
  if ((code == 0)) && [[ -z $keep ]]; then rm -rf -- "$work"; fi
}
trap end_all EXIT
trap 'exit 1' INT TERM
offset=0
[[ $launcher == slurm ]] || offset=1
RANDOM=$(((seed + offset) % 32768))
say "seed $seed, $work"

head -c 20000 /dev/urandom | base64 >"$work/text.txt"
"$trireme" data pack-text "$work/text.txt" --out "$work/data" --quiet >"$work/pack.log" 2>&1 || die "$trireme cannot pack the data"
cat >"$work/config.yaml" <<YAML
run: {seed: 7}
device: {type: cpu}
precision: fp32
reproducibility: layout
model: {family: gpt2, layers: 2, hidden: 16, heads: 2, context: 16, vocabulary: 256}
data: {path: $work/data}
train: {steps: $steps, global_batch: 8, micro_batch: 1, log_every: 1000}
parallel: {tensor_blocks: 2, timeout_seconds: 6}
checkpoint: {every_steps: 5, keep: 2, failed_limit: 1}
YAML
"$trireme" train "$work/config.yaml" --set "run.directory=$work/whole" >"$work/whole.log" 2>&1 || die "the job that nobody disturbs failed: $work/whole.log"
expected=$(sha256sum <"$work/whole/weights.safetensors")

# Small, so that it fills up soon.
mount -t tmpfs -o size=48m tmpfs "$work/disk" || die "cannot mount a tmpfs"
unset "${!SLURM_@}"
mkdir -p "$work/cluster"
if [[ $launcher == slurm ]]; then
  "$repository/tests/slurm/vslurm.sh" up "$work/cluster" 4 2 || die "the virtual Slurm does not start"
  network_load "$work/cluster"
  export SLURM_CONF=$work/cluster/slurm.conf
else
  network_up "$work/cluster" 4 || die "no virtual hosts"
fi
# The network's agent works without a network.
cat >"$work/rsh" <<AGENT
#!/usr/bin/env bash
for word; do [[ \$word == -* ]] || break; done
if [[ -e "$work/lost.\$word" ]]; then
  echo "ssh: connect to host \$word: No route to host" >&2
  exit 255
fi
exec "$work/cluster/rsh" "\$@"
AGENT
chmod +x "$work/rsh"
export OMPI_MCA_plm_rsh_agent=$work/rsh TRIREME_INTERFACE=$network_subnet.0/24
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none TRIREME_END_SECONDS=3
export TRIREME_START_SECONDS=20

# The faults; each sets `what` for the report, and undoes its effect after a while.
kill_the_campaign() {
  what="campaign killed"
  kill -KILL "$campaign" 2>/dev/null || true
  { wait "$campaign"; } 2>/dev/null || true
  sleep "$((RANDOM % 2))"
  start
}
cut_link() {
  touch "$work/lost.n$1"
  ip link set "$(network_interface "$1")" down
}
mend_link() {
  local host
  ip link set "$(network_interface "$1")" up
  # Failed address lookups are cached for a while.
  for host in 1 2 3 4; do ip -n "$(network_namespace "$host")" neigh flush dev eth0; done
  ip neigh flush dev "${network_tag}b"
  rm "$work/lost.n$1"
}
lose_a_node() {
  local host=$((1 + RANDOM % 4)) processes
  what="n$host lost"
  cut_link "$host"
  mapfile -t processes < <(network_processes "$host")
  [[ ${#processes[@]} -eq 0 ]] || kill -KILL "${processes[@]}" 2>/dev/null || true
  sleep "$((2 + RANDOM % 4))"
  mend_link "$host"
  [[ $launcher != slurm ]] || network_exec "$host" slurmd
}
# Its processes go on.
cut_a_link() {
  local host=$((1 + RANDOM % 4))
  what="n$host cut off"
  cut_link "$host"
  sleep "$((2 + RANDOM % 6))"
  mend_link "$host"
}
preempt() {
  what="preempted"
  sbatch --parsable --partition=main --nodes=4 --exclusive --output=/dev/null --wrap 'sleep 3' >/dev/null 2>&1 || true
}
drain_a_node() {
  local host=$((1 + RANDOM % 4))
  what="n$host drained"
  scontrol update "nodename=n$host" state=drain reason=test || true
  sleep 3
  scontrol update "nodename=n$host" state=resume || true
}
fill_the_disk() {
  what="disk full"
  cat /dev/zero >"$work/disk/filler" 2>/dev/null || true
  sleep "$((2 + RANDOM % 4))"
  rm -f "$work/disk/filler"
}
kill_a_rank() {
  local ranks
  what="rank killed"
  mapfile -t ranks < <(pgrep -f "^$trireme train .*run.directory=$place/run" || true)
  ((${#ranks[@]} == 0)) || kill -KILL "${ranks[RANDOM % ${#ranks[@]}]}" 2>/dev/null || true
}
happenings=(kill_the_campaign kill_the_campaign lose_a_node cut_a_link fill_the_disk kill_a_rank preempt drain_a_node)
declare -A kinds=([slurm]=8 [hosts]=6)

start() {
  "$trireme" campaign "$work/campaign.yaml" >>"$log" 2>&1 </dev/null &
  campaign=$!
}

tell() { say "$1" | tee -a "$work/lines.txt"; }
failed=0
: >"$work/lines.txt"
for ((n = 1; n <= campaigns; ++n)); do
  place=$work/disk/campaign$n log=$work/campaign$n.log history=""
  pairs=(data=2 tensor=2 pipeline=2) fours=(data=4 data=2:tensor=2 data=2:pipeline=2 tensor=2:pipeline=2)
  {
    printf '%s\n' "config: $work/config.yaml" "directory: $place" "nodes: {min: 1, max: 4}" \
      "layouts: [data=1, \"${pairs[RANDOM % 3]}\", \"${fours[RANDOM % 4]}\"]" \
      "failures: {backoff_seconds: 0.5, exclude_hours: 0.004, no_progress: 12}" "better: {gain: 1.2, after_minutes: 0.2}" "poll_seconds: 0.5"
    if [[ $launcher == slurm ]]; then echo "slurm: {partitions: [low]}"; else echo "hosts: [n1, n2, n3, n4]"; fi
  } >"$work/campaign.yaml"
  start
  for ((event = 0; event < events; ++event)); do
    sleep "$(awk -v r=$RANDOM 'BEGIN { print 0.5 + 2 * r / 32768 }')"
    kill -0 "$campaign" 2>/dev/null || break
    what=""
    "${happenings[RANDOM % ${kinds[$launcher]}]}"
    history+="${history:+, }$what"
  done
  deadline=$((SECONDS + 240))
  while kill -0 "$campaign" 2>/dev/null && ((SECONDS < deadline)); do sleep 0.2; done
  if kill -0 "$campaign" 2>/dev/null; then
    kill -KILL "$campaign"
    history+=", STILL RUNNING after 240 s"
  fi
  code=0
  { wait "$campaign" || code=$?; } 2>/dev/null
  campaign=0
  used=$(find "$place/attempts" -mindepth 1 -maxdepth 1 | wc -l)
  layouts=$(sed -n 's/.*job [0-9]*[: ].*nodes as \([^;]*\) from step.*/\1/p' "$log" | sort -u | paste -sd '|')
  if ((code != 0)) || [[ $(sha256sum <"$place/run/weights.safetensors" 2>/dev/null) != "$expected" ]]; then
    say "campaign $n ($launcher): code $code or other weights after $history: $log (seed $seed)"
    failed=1
    continue
  fi
  twice=""
  if [[ $launcher == slurm ]]; then twice=$(squeue -h -t all -o %j | grep "^trireme-$(sed -n 's/.*"id": "\(.*\)",/\1/p' "$place/campaign.json")-" | sort | uniq -d); fi
  [[ -z $twice ]] || { say "campaign $n: submitted twice: $twice"; failed=1; }
  tell "campaign $n ($launcher): the same weights after $used jobs as $layouts; ${history:-nothing} went wrong; $(grep '^goodput' "$log" | tail -n 1)"
  rm -rf -- "$place"
done
summary "$work/lines.txt"
exit $failed
