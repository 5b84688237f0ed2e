# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of campaigns: a campaign in the background, and complaints.
failed=0 case=none log=/dev/null
complain() {
  printf '%s: expected %s\n' "$case" "$1"
  sed 's/^/    /' "$log"
  failed=1
}
expect_code() { [[ $code -eq $1 ]] || complain "exit code $1, got $code"; }
expect_text() { grep -qE -- "$1" "$log" || complain "the output to contain: $1"; }
expect_equal() { [[ -n $1 && $1 == "$2" ]] || complain "$3: '$1' and '$2'"; }
soon() {
  local deadline=$((SECONDS + 30))
  until "$@"; do
    ((SECONDS < deadline)) || {
      complain "$* within 30 s"
      return 1
    }
    sleep 0.05
  done
}
# start: the campaign of campaign.yaml in the background, as $campaign.
start() {
  "$trireme" campaign "$place/campaign.yaml" >>"$log" 2>&1 &
  campaign=$!
}
# finish: waits for its end; sets code.
finish() {
  local deadline=$((SECONDS + 40))
  while kill -0 "$campaign" 2>/dev/null && ((SECONDS < deadline)); do sleep 0.05; done
  ! kill -0 "$campaign" 2>/dev/null || {
    complain "the campaign to end"
    kill -KILL "$campaign"
  }
  { wait "$campaign"; } 2>/dev/null
  code=$?
}
kill_campaign() {
  kill -KILL "$campaign"
  { wait "$campaign"; } 2>/dev/null
}
