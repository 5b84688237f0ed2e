#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a training job until it is done: starts it again after a failure, from its newest checkpoint, and gives up where
# that would not help.
#
#   launch/supervise.sh [options] -- launch/mpi_run.sh -np 8 trireme train configs/gpt.yaml --set run.directory=runs/a
#
#   --max-restarts N   failures to start again after (default 10); a stop at a deadline costs none
#   --backoff S        seconds before the first restart, doubled with each failure up to 16 S (default 5); at most 1 where the
#                      failed start had made steps
#   --no-progress N    give up after so many failures without a newer checkpoint (default 3)
#   --restart-on CODE  start again after this exit code too (6: a loss that is not finite); may be repeated
#   --run DIR          run directory, where the command does not name it
#   --hosts LIST       a:8,b:8: each start takes the hosts that answer, with so many ranks each (default 1), and at once where they
#                      are not those of the start before; {hosts} and {ranks} in the command stand for them
#   --ranks LIST       2,4,8: the numbers of ranks that the config can run on; the largest that there are hosts for (default: all)
#   --min-ranks N      waits until hosts for so many ranks answer (default 1)
#
#   launch/supervise.sh --hosts a:8,b:8,c:8 --min-ranks 16 -- launch/mpi_run.sh --host {hosts} -np {ranks} trireme train gpt.yaml
#
# Hosts answer by OMPI_MCA_plm_rsh_agent or ssh within TRIREME_PROBE_SECONDS (default 5), or sooner where others do (see probe_hosts).
# `parallel.search: true` in the config (with parallel.hardware) has the planner choose the layout for as many ranks as there are.
#
# USR1, TERM and Ctrl-C go on to the job; the last two also mean that nothing is started again. mpirun kills a second after its
# own TERM, launch/mpi_run.sh in its place leaves time for a checkpoint. One log per start and a line about its end in DIR/supervise/. Where
# the supervisor itself is killed its job is told to stop, and the next one waits for the end of what still runs.
#
# Exit code: the job's, when it is done (0), cannot succeed (2 config, 3 data, 6 loss), was stopped (75, requeue), or the
# restarts are used up; 93 when the same failure would come again: the same step and message twice in a row, or no progress.
# A full disk, a directory that an ending job holds, a lost host and a daemon that could not be started may pass: they cost
# restarts, with the backoff, and nothing else.
set -u

# shellcheck source=launch/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
# shellcheck source=launch/segments.sh
source "$(dirname "${BASH_SOURCE[0]}")/segments.sh"
readonly given_up=93 requeue=75
max_restarts=10 backoff=5 no_progress=3 run="" hosts="" counts="" min_ranks=1
read -ra remote_shell <<<"${OMPI_MCA_plm_rsh_agent:-ssh -o BatchMode=yes}"
final_codes=" 2 3 6 "

usage() {
  echo "supervise.sh: $1" >&2
  sed -n '3,/^set -u/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}

# Sets `number`; 08 is eight.
whole_number() {
  [[ $2 =~ ^[0-9]{1,9}$ ]] || usage "$1: $2 is not a whole number below 1000000000"
  number=$((10#$2))
}

while [[ $# -gt 0 && $1 != -- ]]; do
  [[ $# -ge 2 ]] || usage "$1: needs a value"
  case $1 in
    --max-restarts) whole_number "$1" "$2" && max_restarts=$number ;;
    --backoff) whole_number "$1" "$2" && backoff=$number ;;
    --no-progress) whole_number "$1" "$2" && no_progress=$number ;;
    --restart-on) whole_number "$1" "$2" && final_codes=${final_codes/ $number / } ;;
    --run) run=$2 ;;
    --hosts)
      [[ $2 =~ ^[^,:\ ]+(:[1-9][0-9]{0,4})?(,[^,:\ ]+(:[1-9][0-9]{0,4})?)*$ ]] || usage "--hosts: $2 is not a list like a:8,b:8"
      hosts=$2
      ;;
    --ranks)
      [[ $2 =~ ^[1-9][0-9]{0,8}(,[1-9][0-9]{0,8})*$ ]] || usage "--ranks: $2 is not a list of numbers like 2,4,8"
      counts=$2
      ;;
    --min-ranks) whole_number "$1" "$2" && min_ranks=$number ;;
    *) usage "$1: no such option" ;;
  esac
  shift 2
done
[[ ${1:-} == -- && $# -ge 2 ]] || usage "no command after --"
shift
command=("$@")

[[ -z $hosts || ${command[*]} == *"{hosts}"*"{ranks}"* || ${command[*]} == *"{ranks}"*"{hosts}"* ]] ||
  usage "--hosts: the command lacks {hosts} or {ranks}, which stand for the hosts that answer and their ranks"

# A YAML file's `directory`, in quotes of either kind or without.
directory_of() {
  sed -nE -e 's/^([^#]*[{, ])?directory: *"([^"]*)".*/\2/p' -e "s/^([^#]*[{, ])?directory: *'([^']*)'.*/\\2/p" \
    -e "s/^([^#]*[{, ])?directory: *([^\"' ,}#]([^,}#]*[^ ,}#])?).*/\\2/p" "$1" | head -n 1
}

# As the command line sets it, else as the config file does; a run stands for itself.
find_run() {
  local argument
  for argument in "${command[@]}"; do
    [[ $argument == *run.directory=* ]] && run=${argument##*run.directory=}
  done
  [[ -z $run ]] || return
  for argument in "${command[@]}"; do
    if [[ -f $argument/config.yaml ]]; then
      run=$argument
    elif [[ $argument == *.yaml && -f $argument ]]; then
      run=$(directory_of "$argument")
    fi
  done
  [[ -n $run ]] || usage "cannot tell the run directory; say --run DIR"
}
[[ -n $run ]] || find_run
# Not an option of what is called below.
[[ $run != -* ]] || run=./$run
readonly logs=$run/supervise
make_logs() { LC_ALL=C mkdir -p "$logs" 2>&1; }
problem=$(make_logs) || {
  echo "supervise.sh: $problem" >&2
  [[ $problem != *"No space left"* && $problem != *quota* ]] || exit 1
  exit 2
}
# The run's directory may be a link; what is in it is not written to through one.
link=$(find "$run" -maxdepth 1 -name supervise -type l; find "$logs/" -maxdepth 1 -type l)
[[ -z $link ]] || {
  echo "supervise.sh: ${link%%$'\n'*}: is a symbolic link; remove it, or make all of $run one" >&2
  exit 2
}

note() {
  printf '%s supervise: %s\n' "$(date '+%F %T.%3N')" "$*" | tee -a "$logs/supervise.log" >&2
}

last_step() {
  tail -n 20 "$run/metrics.jsonl" 2>/dev/null | sed -nE 's/.*"step":([0-9]+).*/\1/p' | tail -n 1
}

newest_checkpoint() {
  local newest
  newest=$(find "$run/checkpoints" -maxdepth 1 -type d -name 'step_*[0-9]' -printf '%f\n' 2>/dev/null | sort | tail -n 1)
  [[ -n $newest ]] && echo "$((10#${newest#step_}))"
}

# The last error in a log, without what differs from run to run: rank, host, times.
message_of() {
  grep 'error: ' "$1" | tail -n 1 | sed -E 's/.*error: //; s/[0-9]+\.[0-9]+/#/g'
}

# Whether the run's disk takes anything. A log there has nothing of a failure for want of room.
has_room() {
  local trial=$logs/room.$$ result
  head -c 65536 /dev/zero >"$trial" 2>/dev/null
  result=$?
  rm -f "$trial"
  return $result
}

# Whether the same start may succeed later, by `code` and `message`, which it sets where there was no room for one.
may_pass() {
  ((code != 0 && code != 6 && code != requeue)) || return 1
  if ! has_room; then
    message=${message:-the disk of $run is full}
    return 0
  fi
  [[ $message =~ "the disk is full"|"No space left"|[Qq]uota|"is in use by"|"could not be started"|"is lost: the daemon" ]]
}

job=0 stopping=false
forward() {
  [[ $1 == USR1 ]] || stopping=true
  ((job > 0)) && kill -s "$1" "$job" 2>/dev/null
}
trap 'forward USR1' USR1
trap 'forward TERM' TERM
trap 'forward INT' INT

# Waits through the signals that interrupt a wait.
wait_for_job() {
  local code
  while :; do
    wait "$job"
    code=$?
    kill -0 "$job" 2>/dev/null || break
  done
  # The last wait may have returned for a signal that came as the job ended.
  wait "$job" 2>/dev/null
  local late=$?
  ((late == 127)) || code=$late
  return "$code"
}

# The job inherits the lock, so that it is free when the last process of an earlier job has ended, whatever became of its
# supervisor, whose host and process stand in the file.
own_the_run() {
  local holder_host holder_process _
  exec {lock}>>"$logs/lock"
  if ! flock --nonblock "$lock"; then
    read -r holder_host holder_process _ <"$logs/lock"
    if [[ $holder_host != "$(hostname)" ]]; then
      note "the job of process ${holder_process:-?} on ${holder_host:-another host} still runs: waiting for its end"
    elif kill -0 "${holder_process:-0}" 2>/dev/null; then
      note "process $holder_process supervises this run already; exit code 2"
      exit 2
    else
      note "the job of process $holder_process, which is gone, still runs: waiting for its end"
    fi
    until flock --timeout 1 "$lock"; do ! $stopping || end $requeue "stopped from outside"; done
  fi
  echo "$(hostname) $$" >"$logs/lock"
}
dies_with_us=()
if setpriv --pdeathsig TERM true 2>/dev/null; then dies_with_us=(setpriv --pdeathsig TERM); fi

is_here() { [[ $1 == localhost || $1 == "$(hostname)" || $1 == "$(hostname -s)" ]]; }

milliseconds() { echo $((${EPOCHREALTIME//[.,]/} / 1000)); }
# Asks hosts, all at once, and sets `answered` by host. Once one has answered the others get three times as long, and two seconds
# at least, or one where the last job has lost them.
declare -A answered
probe_seconds=$(environment_number TRIREME_PROBE_SECONDS 5 1 3600)
probe_hosts() {
  local host probe began now slowest=0 least
  local -A probes=()
  answered=()
  began=$(milliseconds)
  for host; do
    if is_here "$host"; then
      answered[$host]=1
      continue
    fi
    timeout "$probe_seconds" "${remote_shell[@]}" "$host" true </dev/null >/dev/null 2>&1 {lock}>&- &
    probes[$!]=$host
  done
  while ((${#probes[@]} > 0)); do
    sleep 0.05 {lock}>&-
    now=$(($(milliseconds) - began))
    for probe in "${!probes[@]}"; do
      host=${probes[$probe]} least=2000
      [[ ${message:-} != "$host is lost"* ]] || least=1000
      if ! kill -0 "$probe" 2>/dev/null; then
        if { wait "$probe"; } 2>/dev/null; then answered[$host]=1 slowest=$now; fi
        unset "probes[$probe]"
      elif ((slowest > 0 && now > least && now > 3 * slowest)); then
        kill -s TERM "$probe" 2>/dev/null
      fi
    done
  done
}

# The largest of --ranks that is at most this.
usable() {
  local count most=0
  for count in ${counts//,/ }; do ((count <= $1 && count > most && (most = count))); done
  echo "$most"
}

# Sets `here`, the list of those that answer, and `ranks`.
ask_hosts() {
  local entry away="" names=()
  for entry in ${hosts//,/ }; do names+=("${entry%%:*}"); done
  probe_hosts "${names[@]}"
  here="" ranks=0
  for entry in ${hosts//,/ }; do
    [[ $entry == *:* ]] || entry+=:1
    if [[ -n ${answered[${entry%%:*}]:-} ]]; then
      here+=${here:+,}$entry ranks=$((ranks + ${entry##*:}))
    else
      away+=${away:+, }${entry%%:*}
    fi
  done
  [[ -z $counts ]] || ranks=$(usable "$ranks")
  [[ -z $away || $away == "$away_before" ]] || note "$away: no answer, left out"
  [[ -n $away || -z $away_before ]] || note "all hosts answer again"
  away_before=$away
}
away_before="" here="" ranks=0

# Until there are enough.
find_hosts() {
  [[ -n $hosts ]] || return 0
  ask_hosts
  ((ranks >= min_ranks && ranks > 0)) || note "hosts for $ranks of at least $min_ranks ranks answer: waiting for more"
  until ((ranks >= min_ranks && ranks > 0)); do
    pause 5
    ! $stopping || end $requeue "stopped from outside"
    ask_hosts
  done
}

# Output goes to a file: processes that outlive a job would hold a pipe open.
start_job() {
  log=$(printf '%s/incarnation_%03d.log' "$logs" "$incarnation")
  : >"$log"  # the viewer below may be faster than the job
  export TRIREME_START_TIME TRIREME_EARLIER_STARTS=$earlier_starts
  TRIREME_START_TIME=$(date '+%s')
  # A process group of its own: Ctrl-C reaches it once, from here, and it does not begin with SIGINT ignored.
  set -m
  "${dies_with_us[@]}" "${now[@]}" >"$log" 2>&1 </dev/null &
  job=$!
  set +m
  $stopping && kill -s TERM "$job"
  tail -n +1 -s 0.1 -f --pid="$job" "$log" {lock}>&- &
  local viewer=$!
  wait_for_job
  code=$?
  job=0
  wait "$viewer" 2>/dev/null
  ((code == 0)) || clear_dead_segments "$TRIREME_START_TIME"
}

end() {
  note "$2; exit code $1"
  exit "$1"
}

# Sleeps so that a signal ends it.
pause() {
  $stopping && return
  sleep "$1" {lock}>&- &
  wait $!
}

own_the_run
incarnation=$(find "$logs" -name 'incarnation_*.log' | wc -l)
earlier_starts=0 failures=0 without_progress=0 before="" reached=$(newest_checkpoint)
delay=$backoff
find_hosts
while :; do
  now=("${command[@]//\{hosts\}/$here}")
  now=("${now[@]//\{ranks\}/$ranks}")
  note "start $incarnation: ${now[*]}"
  step_before=$(last_step)
  start_job
  checkpoint=$(newest_checkpoint)
  step=$(last_step)
  message=$(message_of "$log")
  passing=false
  if may_pass; then passing=true; fi
  note "start $incarnation ended with exit code $code at step ${step:-none}, newest checkpoint ${checkpoint:-none}: ${message:-no message}"
  ((code == 0)) && end 0 "done"
  $stopping && end "$code" "stopped from outside"
  $passing || [[ $final_codes != *" $code "* ]] || end "$code" "starting again would not help"

  if [[ $checkpoint != "$reached" ]]; then
    without_progress=0 delay=$backoff
    reached=$checkpoint
  elif ! $passing; then
    without_progress=$((without_progress + 1))
  fi
  ((without_progress < no_progress)) ||
    end $given_up "no newer checkpoint in $no_progress starts"
  incarnation=$((incarnation + 1)) earlier_starts=$((earlier_starts + 1))
  if ((code == requeue)); then
    (($(seconds_of_allocation 86400) > 300)) || end $requeue "the allocation ends; requeue the job"
    find_hosts
    continue
  fi

  hosts_before=$here
  find_hosts
  failure="$code at ${step:-none}: $message"
  $passing || [[ $failure != "$before" || $here != "$hosts_before" ]] || end $given_up "the same failure twice in a row"
  before=$failure
  failures=$((failures + 1))
  ((failures <= max_restarts)) || end "$code" "the $max_restarts restarts are used up"
  if [[ $here != "$hosts_before" ]]; then
    note "restart $failures of $max_restarts, at once, on $here"
    continue
  fi
  seconds=$delay
  [[ -z $step || $step == "$step_before" || $delay -eq 0 ]] || seconds=1
  note "restart $failures of $max_restarts in $seconds s"
  pause "$seconds"
  $stopping && end "$code" "stopped from outside"
  delay=$((delay < 16 * backoff ? 2 * delay : delay))
done
