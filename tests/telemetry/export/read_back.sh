#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# read_back.sh WRITE_SAMPLE_RUN TOOL: the tool's own reader finds the values of metrics.jsonl in a run's files. Exit
# code 77 if the reader is not installed; TRIREME_PYTHON names a Python that has it.
set -euo pipefail
repository=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../../..
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python=${TRIREME_PYTHON:-python3}
command -v "$python" >/dev/null || { echo "skipped: there is no $python"; exit 77; }
"$1" "$directory"
"$python" "$repository/tests/checks/check_exports.py" "$2" "$directory"
