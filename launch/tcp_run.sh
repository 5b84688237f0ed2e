#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts N processes of a program on this machine without MPI's launcher: they find each other by RANK, WORLD_SIZE,
# MASTER_ADDR and MASTER_PORT, as under Kubernetes or torchrun, and know each other by a secret, which is made here.
#
#   launch/tcp_run.sh 4 build/cpu/trireme train configs/gpt_tiny.yaml
#   HOSTS=2 HOST_INDEX=1 MASTER_ADDR=a MASTER_PORT=29500 TRIREME_SECRET_FILE=~/job.secret launch/tcp_run.sh 4 ...
#                                  4 of 8 on the second host; 0 is a. Several hosts must be given the same secret:
#                                  (umask 077 && openssl rand -hex 32 >~/job.secret)
#
# MASTER_PORT is chosen at random unless it is set. Ranks that do not find each other end after TRIREME_START_SECONDS (default
# 120). When one ends with an error the others have TRIREME_END_SECONDS (default 30) to do so too, and after a TERM or Ctrl-C, which
# stop them with a checkpoint, TRIREME_GRACE_SECONDS (default 60); then they are killed. A second Ctrl-C kills them at once (code
# 130). USR1 goes to them. Exit code: see job_code in launch/job.sh; a rank that a signal ended is named. The ranks of a script that is
# killed are told to stop.
# shellcheck disable=SC2317  # functions that traps call
set -uo pipefail

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
  # Under Kubernetes the first host has its name some time after it has started.
  for _ in {1..600}; do
    getent hosts "$MASTER_ADDR" >/dev/null && break
    sleep 1
  done
else
  export MASTER_ADDR=127.0.0.1 TRIREME_JOB_ID=${TRIREME_JOB_ID:-$$-$RANDOM-$EPOCHREALTIME}
  give_secret
fi
# Below the range that the system hands out by itself.
export WORLD_SIZE=$((hosts * ranks)) MASTER_PORT=${MASTER_PORT:-$((20000 + RANDOM % 12000))}

dies_with_us=()
if setpriv --pdeathsig TERM true 2>/dev/null; then dies_with_us=(setpriv --pdeathsig TERM); fi
declare -A rank_of=()
kill_at=0 stopping=false ended_at_once=false started=$(date +%s)
to_ranks() { [[ ${#rank_of[@]} -eq 0 ]] || kill -s "$1" "${!rank_of[@]}" 2>/dev/null; }
# What still lives after so many seconds is killed.
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
heed_signals
for ((rank = index * ranks; rank < (index + 1) * ranks; ++rank)); do
  RANK=$rank "${dies_with_us[@]}" "$@" &
  rank_of[$!]=$rank
done

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
# Never readable: a pause that needs no process, which a signal ends.
exec {idle}<> <(:)
while ((${#rank_of[@]} > 0)); do
  read -rt 0.1 -u "$idle"
  # Not in the trap: a $() there, within a read, becomes a second copy of this loop (bash 5.2).
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
    # Their ends are not the job's, and not worth the shell's words.
    exec {messages}>&2 2>/dev/null
    to_ranks KILL
    wait
    exec 2>&"$messages"
    break
  fi
done
((launcher_code == 0)) || clear_dead_segments "$started"
result=$(job_code "$launcher_code" "${ends[@]}")
# Who ends by a signal is the culprit where nobody had ended before.
if [[ ${ends[0]:-} == signal && $result == "$communication_code" ]] && ! $stopping; then echo "$named" >&2; fi
# Told to stop, they did not.
((${#rank_of[@]} == 0 || result != 0)) || result=$communication_code
exit "$result"
