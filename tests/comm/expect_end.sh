#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# expect_end.sh CODE TEXT COMMAND...: the command must end by itself, with exit code CODE, and print TEXT. It takes a
# second; the limit leaves room for a crowded machine.
code=$1
text=$2
shift 2
output=$(timeout -k 5 90 "$@" 2>&1)
got=$?
printf '%s\n' "$output"
if [ "$got" -ne "$code" ]; then
  echo "expected exit code $code, got $got (124: it hung)"
  exit 1
fi
case $output in
  *"$text"*) ;;
  *) echo "expected the output to contain: $text"; exit 1 ;;
esac
