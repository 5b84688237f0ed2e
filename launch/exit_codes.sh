# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that start ranks: the exit code of a job from the ends of its ranks. Launchers report one of several,
# srun the highest: a rank that is ended because another has stopped then hides why that one did.

readonly communication_code=5 requeue_code=75

# job_code CODE END...: prints the job's code. CODE is the launcher's; each END the exit code of a rank that ended by itself, or
# "signal", in the order in which they were reported.
#
#   0 of the launcher is 0.
#   75 of any rank is the job's: ranks agree on a stop, and none ends before the checkpoint is complete.
#   Else the first code that is not 0 counts: what comes later are ranks that miss their peer.
#   Else a signal ended a rank: 5.
job_code() {
  local code=$1 end
  shift
  if ((code != 0)); then
    for end in "$@"; do
      if [[ $end == "$requeue_code" ]]; then
        echo "$requeue_code"
        return
      fi
    done
    [[ $# -eq 0 ]] || code=$communication_code
    for end in "$@"; do
      if [[ $end != signal && $end != 0 ]]; then
        code=$end
        break
      fi
    done
  fi
  echo "$code"
}
