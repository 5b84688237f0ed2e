# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by tests of interrupted runs.

# Writes a file that replaces the program: a run that resumes from a checkpoint makes 20 more steps, whatever its
# config. So an interrupted run can be endless, and its second start short.
go_on_briefly() {
  cat >"$1" <<RANK
#!/usr/bin/env bash
for argument; do [[ \$argument != run.directory=* ]] || run=\${argument#*=}; done
newest=\$(find "\$run/checkpoints" ${3:-} -name 'step_*[0-9]' -printf '%f\n' 2>/dev/null | sort | tail -n 1)
[[ -z \$newest ]] || set -- "\$@" --set "train.steps=\$((10#\${newest#step_} + 20))"
exec "$2" "\$@"
RANK
  chmod +x "$1"
}

# The step of "final loss" in a log.
last_step_of() { sed -nE 's/.*final loss .*\(of step ([0-9]+);.*/\1/p' "$1" | tail -n 1; }
