#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_parquet.sh TRIREME: texts in Parquet files through scripts/parquet_to_jsonl.py into shards. 77 without pyarrow.
set -euo pipefail
trireme=$1 repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
convert() { python3 "$repository/scripts/parquet_to_jsonl.py" "$@"; }
python3 -c 'import pyarrow.parquet' 2>/dev/null || { echo "skipped: Python has no pyarrow (pip install pyarrow)"; exit 77; }
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 - <<'PYTHON'
import pyarrow, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.table({"n": [1, 2, 3], "text": ["one\n", None, 'zwölf "日本"\n']}), "a.parquet")
pyarrow.parquet.write_table(pyarrow.table({"text": pyarrow.array(["x" * 9 + "\n"] * 5000).dictionary_encode()}), "b.parquet", row_group_size=700)
PYTHON
fails() { # fails WHAT COMMAND...: it must, and say WHAT
  local what=$1 said
  shift
  if said=$("$@" 2>&1); then echo "succeeded: $*" >&2 && exit 1; fi
  [[ $said == *"$what"* ]] || { echo "$*: no '$what' in: $said" >&2 && exit 1; }
}
pack() { convert "$@" 2>err | "$trireme" data pack-text - --json-field text --out out --force --quiet; }

pack a.parquet b.parquet
grep -q '1 rows without a text left out' err
"$trireme" data inspect out | grep -q 'documents *5002'
"$trireme" data inspect out | grep -q 'tokens *50020'

fails 'has no column body; --field is one of: n, text' convert a.parquet --field body
fails 'column n holds int64, not text' convert a.parquet --field n
fails 'nowhere.parquet' convert a.parquet nowhere.parquet
# Damage in the middle of a file is found after lines were written: nothing is packed.
python3 -c "
data = bytearray(open('b.parquet', 'rb').read()); data[len(data) // 3:len(data) // 3 + 200] = b'\xff' * 200
open('damaged.parquet', 'wb').write(data)"
rm -r out
fails 'stdin:' pack damaged.parquet
[[ ! -e out ]]
echo "texts of Parquet files are packed"
