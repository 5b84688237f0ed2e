#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mpirun with the settings of launch/mpi_env.sh. It makes sure that jobs end.
#
#   launch/mpi_run.sh -np 8 build/cpu/trireme train configs/gpt_tiny.yaml
#   launch/mpi_run.sh --host a:8,b:8 -np 16 build/cuda/trireme train configs/gpt2_124m.yaml --set train.micro_batch=32
#
# A rank that sees another host vanish ends the job with a message, but mpirun and its daemons may wait for that host
# for minutes. This script ends mpirun TRIREME_END_SECONDS after the first rank's error (default 10, or 1 if a rank or
# mpirun reports a silent rank or host); launch/host_daemon.sh does the same on other hosts. If allowed, it also sets
# net.ipv4.tcp_retries2 to TRIREME_TCP_RETRIES if given (5: dead connections are noticed in 13 s, not 15 min,
# host-wide).
#
# USR1 makes a checkpoint. TERM and the first Ctrl-C stop with one. mpirun would kill the ranks a second after its TERM,
# so this script signals them; those of this host suffice, since a run agrees on its end. Without any here, mpirun gets
# the TERM. TRIREME_GRACE_SECONDS (default 60) later the rest is killed. If this script is killed, so is its job; a
# second Ctrl-C kills at once. Exit code: see job_code in launch/job.sh; 5 if mpirun had to be ended or lost a host, 130
# after a second Ctrl-C. It names a rank that was ended by a signal (mpirun returns 128 + the signal), and a lost host.
# shellcheck disable=SC2317  # functions that traps call
set -u
trap 'early=USR1' USR1 && trap 'early=TERM' TERM && trap 'early=INT' INT  # until forward_signals

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $# -ge 1 ]] || {
  sed -n '3,18s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
ranks=$(nproc)
for ((i = 1; i < $#; ++i)); do
  option=${!i} next=$((i + 1))
  if [[ $option == -np || $option == -n || $option == --np ]]; then ranks=${!next}; fi
done
# shellcheck source=launch/mpi_env.sh
source "$here/mpi_env.sh" "$ranks" || exit 2
# With launch/job.sh.
# shellcheck source=launch/host_daemon.sh
source "$here/host_daemon.sh"
end_seconds=$(environment_number TRIREME_END_SECONDS 10 0 86400) grace_seconds=$(environment_number TRIREME_GRACE_SECONDS 60 0 86400)
readonly end_seconds grace_seconds
tcp_retries=$(environment_number TRIREME_TCP_RETRIES - 1 255)
set_tcp_retries "$tcp_retries"
export OMPI_MCA_orte_launch_agent="$here/host_daemon.sh $end_seconds $tcp_retries orted"
export PRTE_MCA_prte_launch_agent="$here/host_daemon.sh $end_seconds $tcp_retries prted"  # Open MPI 5

# mpirun passes Open MPI's variables on.
pass_on=()
[[ -z $trireme_changed_path ]] || pass_on=(-x PATH)
for variable in OMP_NUM_THREADS LD_LIBRARY_PATH CUDA_DEVICE_ORDER SLURM_JOB_START_TIME SLURM_JOB_END_TIME "${!NCCL_@}" "${!UCX_@}" "${!TRIREME_@}"; do
  [[ -z ${!variable:-} ]] || pass_on+=(-x "$variable")
done

# Output goes to a file: daemons that outlive a job would hold a pipe open.
log=$(temporary_file trireme-mpirun) || exit 1
# A child that is killed before its exec also runs this trap.
trap '[[ $BASHPID != "$$" ]] || rm -f "$log"' EXIT
# Ctrl-C reaches this script only. If it is killed, mpirun ends with it.
dies_with_us=()
if setpriv --pdeathsig TERM true 2>/dev/null; then dies_with_us=(setpriv --pdeathsig TERM); fi
started=$(date +%s)
# Open MPI 5 refuses to start where a killed mpirun with this process id left its directory.
(rm -rf -- "${TMPDIR:-/tmp}"/prterun.*."$BASHPID"."$UID" && exec setsid "${dies_with_us[@]}" mpirun "${pass_on[@]}" "$@") >"$log" 2>&1 </dev/null &
job=$!
tail -n +1 -s 0.1 -f --pid="$job" "$log" &
viewer=$!

ranks_here() {
  local process
  for process in $(descendants "$job"); do
    if grep -qsz '^OMPI_COMM_WORLD_RANK=' "/proc/$process/environ"; then echo "$process"; fi
  done
}
stop_at=0
stop() {
  local signal=$1 ranks
  mapfile -t ranks < <(ranks_here)
  ((stop_at > 0)) || stop_at=$((SECONDS + grace_seconds))
  ((${#ranks[@]} > 0)) || signal=TERM
  kill -s "$signal" "${ranks[@]:-$job}" 2>/dev/null
}
checkpoint() { kill -s USR1 "$job" 2>/dev/null; }
end_at_once() {
  end_job "interrupted a second time"
  result=130
}
forward_signals

# Not TERM: mpirun would first wait for hosts that do not answer.
end_job() {
  echo "mpi_run.sh: $1: ending mpirun" >&2
  local below
  mapfile -t below < <(descendants "$job")
  disown "$job" 2>/dev/null  # bash would print that it was killed, and how it was started
  kill -s KILL "$job" "${below[@]}" 2>/dev/null
  result=$communication_code
}

# A rank's last output is the message of guarded_main. Sets `patience`: mpirun would wait for lost hosts.
readonly lost='Remote daemon: +[^ ]+ on node +([^ ]+)'
patience=$end_seconds
milliseconds() { echo $((${EPOCHREALTIME//[.,]/} / 1000)); }
said_last_words() {
  grep -qaE "^\[rank [0-9]+/[0-9]+ [^]]*\] error: |$lost" "$log" || return
  if [[ -z ${TRIREME_END_SECONDS:-} ]] && grep -qaE "rank [0-9]+ (does not answer|is stopped)|$lost" "$log"; then patience=1; fi
  return 0
}

# mpirun wraps lines with long host names.
said=""
name_lost_host() {
  said=$(tr '\n\0' '  ' <"$log")
  [[ $said =~ $lost ]] || return
  echo "[mpirun] error: ${BASH_REMATCH[1]} is lost: the daemon there does not answer" >&2
}

# Of several the first: mpirun names only one.
find_end() {
  local number='Exit code: +([0-9]+)' killed='process rank ([0-9]+) with PID [0-9]+ on node +([^ ]+) +exited on +signal ([0-9]+ \([^)]*\))'
  said=$(tr '\n\0' '  ' <"$log")
  if [[ $said =~ $number ]]; then
    ends=("${BASH_REMATCH[1]}")
  elif name_lost_host; then
    ends=(signal)
  elif [[ $said == *"unable to reliably start one or more daemons"* || $said == *"has unexpectedly failed after launch"* ]]; then
    ends=(signal)
    echo "[mpirun] error: a daemon could not be started; see above" >&2
  elif [[ $said =~ $killed ]]; then
    ends=(signal)
    echo "[rank ${BASH_REMATCH[1]} ${BASH_REMATCH[2]}] error: ended by signal ${BASH_REMATCH[3]}, and the job with it" >&2
  fi
}

result=0 end_at=0
while kill -0 "$job" 2>/dev/null; do
  wait_at_most 3 "$job"
  if ((end_at == 0)) && said_last_words; then end_at=$(($(milliseconds) + 1000 * patience)); fi
  if ((end_at > 0 && $(milliseconds) > end_at)); then
    end_job "it still runs $patience s after an error"
    name_lost_host
    break
  elif ((stop_at > 0 && SECONDS > stop_at)); then
    end_job "it still runs $grace_seconds s after it was told to stop"
    break
  fi
done
{ wait "$job"; } 2>/dev/null
code=$?
wait "$viewer" 2>/dev/null
clear_job_of "$job"
# mpirun of Open MPI 5 returns 0 after it lost a host.
if ((code == 0)) && grep -qaE "$lost" "$log"; then code=$communication_code; fi
((code == 0)) || clear_dead_segments "$started"
ends=()
if ((result == 0 && code != 0)); then
  find_end
  result=$(job_code "$code" "${ends[@]}")
fi
exit "$result"
