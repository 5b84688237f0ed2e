#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_h5py.sh WRITE_SAMPLE MPIEXEC: a checkpoint of four ranks read by h5py. 77 without h5py.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$2" -n 4 "$1" "$directory"
python3 "$here/../../tests/checks/check_checkpoint.py" "$directory/step_00000100" "$directory/expected.safetensors"
