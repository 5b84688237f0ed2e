#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# launch_lint.sh TRIREME: checks the scripts, containers and manifests of launch/ without their target systems. Missing
# linters are named and skipped.
set -u
trireme=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
failed=0
complain() {
  echo "$*"
  failed=1
}
# have TOOL: reports a missing tool.
have() {
  command -v "$1" >/dev/null || {
    echo "left out: there is no $1"
    return 1
  }
}

mapfile -t scripts < <(find launch tests/slurm tests/hosts tests/build -name '*.sh' -o -name '*.sbatch' | sort)
for script in "${scripts[@]}"; do
  bash -n "$script" || complain "$script: does not parse"
  [[ $(head -n 1 "$script") != '#!'* || -x $script ]] || complain "$script: is not executable"
done
if have shellcheck; then shellcheck -x "${scripts[@]}" || complain "shellcheck found something"; fi
if have hadolint; then hadolint launch/container/Dockerfile || complain "hadolint found something"; fi
if have yamllint; then
  yamllint -d '{extends: default, rules: {line-length: {max: 160}}}' launch/kubernetes || complain "yamllint found something"
fi
if have docker && docker buildx version >/dev/null 2>&1 && docker info >/dev/null 2>&1; then
  docker build --check -f launch/container/Dockerfile . || complain "docker build --check found something"
fi

# Both kinds of image use one system.
bases=$(sed -nE 's/^(FROM|From:) ?(debian[^ ]*).*/\2/p' launch/container/Dockerfile launch/container/trireme.def | sort -u)
[[ $bases == debian:* && $bases != *$'\n'* ]] || complain "launch/container: one base for all images, found $bases"

# The manifests parse, and their commands exist, with configs that resolve.
if python3 -c 'import yaml' 2>/dev/null; then
  commands=$(python3 tests/build/manifest_commands.py launch/kubernetes/*.yaml) || complain "a manifest is wrong"
  runs=0 arguments=()
  while read -r line; do
    [[ $line == *" train "* ]] || continue
    runs=$((runs + 1))
    launcher=${line%% *}
    [[ -x ${launcher#/opt/trireme/} ]] || complain "launch/kubernetes: there is no ${launcher#/opt/trireme/}"
    # The quoting of manifest_commands.py.
    eval "arguments=(${line#* train })"
    "$trireme" train "${arguments[@]}" --print-config >/dev/null || complain "launch/kubernetes: this config does not resolve: $line"
  done <<<"$commands"
  ((runs == 2)) || complain "launch/kubernetes: two manifests that train, found $runs"
else
  echo "left out: the manifests, since python3 has no yaml"
fi

# Every file of launch/container and launch/kubernetes documents its use.
for file in launch/container/{Dockerfile,trireme.def} launch/kubernetes/*.yaml launch/slurm/*.sbatch launch/*_run.sh; do
  head -n 30 "$file" | grep -qE '^#   .*(docker|apptainer|kubectl|sbatch|launch/)' || complain "$file: has no command that runs it in its head"
done
exit $failed
