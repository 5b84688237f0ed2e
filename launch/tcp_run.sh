#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts N processes of a program on this machine without MPI's launcher. They connect by RANK, WORLD_SIZE, MASTER_ADDR
# and MASTER_PORT, as under Kubernetes or torchrun, and authenticate with a secret that this script makes.
#
#   launch/tcp_run.sh 4 build/cpu/trireme train configs/gpt_tiny.yaml
#   HOSTS=2 HOST_INDEX=1 MASTER_ADDR=a MASTER_PORT=29500 TRIREME_SECRET_FILE=~/job.secret launch/tcp_run.sh 4 ...
#                                  4 of 8 on the second host; 0 is a. Several hosts need the same secret:
#                                  (umask 077 && openssl rand -hex 32 >~/job.secret)
#
# MASTER_PORT is random unless set. Ranks that do not connect end after TRIREME_START_SECONDS (default 120). After one
# ends with an error, the others have TRIREME_END_SECONDS (default 30) to end; after a TERM or Ctrl-C, which stop them
# with a checkpoint, TRIREME_GRACE_SECONDS (default 60). Then they are killed. A second Ctrl-C kills them at once (code
# 130). USR1 is passed on. Exit code: see job_code in launch/job.sh; a rank that was ended by a signal is named. If the
# script is killed its ranks are told to stop.
# shellcheck disable=SC2317  # functions that traps call
set -uo pipefail
trap 'early=USR1' USR1 && trap 'early=TERM' TERM && trap 'early=INT' INT  # until forward_signals

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ ! ${1:-} =~ ^[1-9][0-9]*$ || $# -lt 2 ]]; then
  sed -n '3,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
# shellcheck source=launch/job.sh
source "$here/job.sh"
# shellcheck source=launch/program.sh
source "$here/program.sh"
put_program_on_path
end_seconds=$(environment_number TRIREME_END_SECONDS 30 0 86400) grace_seconds=$(environment_number TRIREME_GRACE_SECONDS 60 0 86400)
readonly end_seconds grace_seconds
ranks=$1
shift
hosts=${HOSTS:-1} index=${HOST_INDEX:-0}
if [[ ! $hosts =~ ^[1-9][0-9]{0,5}$ || ! $index =~ ^(0|[1-9][0-9]{0,5})$ ]] || ((index >= hosts)); then
  echo "tcp_run.sh: HOST_INDEX=$index of HOSTS=$hosts: HOSTS is a number from 1, and HOST_INDEX counts from 0" >&2
  exit 2
fi
if ((hosts > 1)); then
  [[ -n ${MASTER_ADDR:-} && -n ${MASTER_PORT:-} ]] || {
    echo "tcp_run.sh: HOSTS=$hosts needs MASTER_ADDR and MASTER_PORT, the same on every host" >&2
    exit 2
  }
  [[ -n ${TRIREME_SECRET:-}${TRIREME_SECRET_FILE:-} ]] || {
    echo "tcp_run.sh: HOSTS=$hosts needs TRIREME_SECRET or TRIREME_SECRET_FILE, the same on every host (openssl rand -hex 32)" >&2
    exit 2
  }
  # Under Kubernetes the first host's name resolves only some time after its start.
  for _ in {1..600}; do
    getent hosts "$MASTER_ADDR" >/dev/null && break
    [[ ${early:-USR1} == USR1 ]] || exit "$requeue_code"
    sleep 1
  done
else
  export MASTER_ADDR=127.0.0.1 TRIREME_JOB_ID=${TRIREME_JOB_ID:-$$-$RANDOM-$EPOCHREALTIME}
  give_secret
fi
# Below the system's ephemeral range.
export WORLD_SIZE=$((hosts * ranks)) MASTER_PORT=${MASTER_PORT:-$((20000 + RANDOM % 12000))}

dies_with_us=()
if setpriv --pdeathsig TERM true 2>/dev/null; then dies_with_us=(setpriv --pdeathsig TERM); fi
declare -A rank_of=()
kill_at=0 stopping=false ended_at_once=false started=$(date +%s)
to_ranks() { [[ ${#rank_of[@]} -eq 0 ]] || kill -s "$1" "${!rank_of[@]}" 2>/dev/null; }
# Kills what is still running after this many seconds.
end_within() { ((kill_at > 0)) || kill_at=$((SECONDS + $1)); }
stop() {
  stopping=true
  to_ranks TERM
  end_within "$grace_seconds"
}
checkpoint() { to_ranks USR1; }
end_at_once() {
  echo "tcp_run.sh: interrupted a second time: killing the ranks" >&2
  to_ranks KILL
  ended_at_once=true
}
for ((rank = index * ranks; rank < (index + 1) * ranks; ++rank)); do
  RANK=$rank "${dies_with_us[@]}" "$@" &
  rank_of[$!]=$rank
done
forward_signals

ends=() launcher_code=0 named=""
took_end_of() {
  local rank=${rank_of[$1]} code=$2
  unset "rank_of[$1]"
  ((code != 0)) || return
  ((launcher_code != 0)) || launcher_code=$code
  if ((code <= 128)); then
    ends+=("$code")
  else
    ends+=(signal)
    named=${named:-"[rank $rank $(hostname)] error: ended by signal $((code - 128)) ($(kill -l $((code - 128)))), and the job with it"}
  fi
  end_within "$end_seconds"
}
# Never readable: `read` on it pauses without a process, and a signal ends the pause.
exec {idle}<> <(:)
while ((${#rank_of[@]} > 0)); do
  read -rt 0.1 -u "$idle"
  # Not in the trap: a $() there, within a read, forks a second copy of this loop (bash 5.2).
  if $ended_at_once; then
    clear_dead_segments "$started"
    exit 130
  fi
  for process in "${!rank_of[@]}"; do
    if kill -0 "$process" 2>/dev/null; then continue; fi
    wait "$process" 2>/dev/null
    took_end_of "$process" $?
  done
  if ((kill_at > 0 && SECONDS >= kill_at && ${#rank_of[@]} > 0)); then
    echo "tcp_run.sh: rank $(IFS=, && echo "${rank_of[*]}") still runs: killing it" >&2
    # Kills them without the shell's messages; their ends do not count.
    exec {messages}>&2 2>/dev/null
    to_ranks KILL
    wait
    exec 2>&"$messages"
    break
  fi
done
((launcher_code == 0)) || clear_dead_segments "$started"
result=$(job_code "$launcher_code" "${ends[@]}")
# A rank ended by a signal is the cause only if no other had ended before.
if [[ ${ends[0]:-} == signal && $result == "$communication_code" ]] && ! $stopping; then echo "$named" >&2; fi
# They were told to stop, but did not.
((${#rank_of[@]} == 0 || result != 0)) || result=$communication_code
exit "$result"
