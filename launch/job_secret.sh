# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that start ranks which find each other over TCP: the secret by which the ranks of a job know each other
# (runtime/comm/README.md). It goes through the environment, or a file that only the user may read, never as an argument.

# A secret of this job's own, unless the user brings one.
give_secret() {
  [[ -z ${TRIREME_SECRET:-}${TRIREME_SECRET_FILE:-} ]] || return 0
  TRIREME_SECRET=$(od -An -v -N32 -tx1 /dev/urandom | tr -d ' \n')
  export TRIREME_SECRET
}
