#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a compiler. The output of ptxas goes to OBJECT.ptxas, everything else to stderr.
for argument; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument
done
log=${object:-/dev/null}
log=${log%.o}.ptxas
"$@" 2>"$log.all"
status=$?
grep -E 'ptxas info|bytes stack frame|bytes spill' "$log.all" >"$log"
grep -vE 'ptxas info|bytes stack frame|bytes spill|^$' "$log.all" >&2
rm -f "$log.all"
exit $status
