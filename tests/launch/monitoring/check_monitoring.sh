#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_monitoring.sh WRITE_SAMPLE_RUN: the dashboard and the alerts use existing metrics. With promtool (else exit code
# 77): the alerts are valid, each fires in its test, and the queries of the dashboard are PromQL.
set -euo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
monitoring=$here/../../../launch/monitoring
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
die() {
  echo "error: $*"
  exit 1
}

"$1" "$directory"
grep -o '^trireme_[a-z_]*' "$directory/metrics.prom" | sed 'p; s/^trireme_tokens_\(.*\)/trireme_images_\1\ntrireme_samples_\1/' | sort -u >"$directory/emitted"
for file in grafana_dashboard.json alerts.yaml; do
  grep -o 'trireme_[a-z_]*' "$monitoring/$file" | sort -u >"$directory/asked"
  [[ -s $directory/asked ]] || die "$file asks for nothing"
  unknown=$(comm -23 "$directory/asked" "$directory/emitted")
  [[ -z $unknown ]] || die "$file asks for what no run has: $unknown"
done

command -v promtool >/dev/null || { echo "skipped: there is no promtool (apt-get install prometheus)"; exit 77; }
promtool check rules --lint-fatal "$monitoring/alerts.yaml"
cp "$monitoring/alerts.yaml" "$here/alerts_test.yaml" "$directory/"
promtool test rules "$directory/alerts_test.yaml"

# Every query as the expression of a rule.
echo "groups: [{name: dashboard, rules: [" >"$directory/queries.yaml"
number=0
while IFS= read -r query; do
  number=$((number + 1))
  echo "  {record: \"query:$number\", expr: $query}," >>"$directory/queries.yaml"
done < <(grep -o '"expr": "\([^"\\]\|\\.\)*"' "$monitoring/grafana_dashboard.json" | sed 's/^"expr": //')
echo "]}]" >>"$directory/queries.yaml"
[[ $number -gt 10 ]] || die "grafana_dashboard.json has only $number queries"
promtool check rules "$directory/queries.yaml"
