#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes one text column of Parquet files to stdout, as JSON lines for `trireme data pack-text -`.

  scripts/parquet_to_jsonl.py corpus/*.parquet | trireme data pack-text - --json-field text --tokenizer tokenizer.json --out data/corpus

Reads files and directories (all *.parquet below, sorted) in the given order, one batch of rows at a time. Rows without
a text are skipped and counted. All files are checked before the first line is written. A later error ends the output
with a line that is no JSON, so that pack-text refuses the whole. Needs pyarrow (pip install pyarrow; exits with 77
without).
"""
import argparse
import glob
import json
import os
import sys

try:
    import pyarrow
    import pyarrow.parquet
except ImportError as error:
    print(f"parquet_to_jsonl.py: {error}; install with: pip install pyarrow", file=sys.stderr)
    sys.exit(77)


def files_of(inputs):
    found = []
    for path in inputs:
        inside = sorted(glob.glob(os.path.join(glob.escape(path), "**", "*.parquet"), recursive=True)) if os.path.isdir(path) else [path]
        if not inside:
            sys.exit(f"parquet_to_jsonl.py: {path}: no *.parquet below this directory")
        found += inside
    return found


def check(path, field):
    """Checks that the file has the column, with texts."""
    schema = pyarrow.parquet.ParquetFile(path).schema_arrow
    if field not in schema.names:
        sys.exit(f"parquet_to_jsonl.py: {path}: has no column {field}; --field is one of: {', '.join(schema.names)}")
    kind = schema.field(field).type
    value = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if not (pyarrow.types.is_string(value) or pyarrow.types.is_large_string(value)):
        sys.exit(f"parquet_to_jsonl.py: {path}: column {field} holds {kind}, not text")


def write(path, field, rows, out):
    """Returns the number of rows without a text."""
    without = 0
    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=rows, columns=[field]):
        texts = batch.column(0).to_pylist()
        without += sum(it is None for it in texts)
        out.write("".join(json.dumps({field: it}, ensure_ascii=False) + "\n" for it in texts if it is not None).encode())
    return without


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", help="Parquet files and directories")
    parser.add_argument("--field", default="text", help="the column, and the field of each line (default: text)")
    parser.add_argument("--rows", type=int, default=1000, help="in memory at a time")
    arguments = parser.parse_args()
    out = sys.stdout.buffer
    path, without = "", 0
    try:
        files = files_of(arguments.inputs)
        for path in files:
            check(path, arguments.field)
        for path in files:
            without += write(path, arguments.field, arguments.rows, out)
        out.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit("parquet_to_jsonl.py: nobody reads the lines any more")
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        message = f"parquet_to_jsonl.py: {path}: {error}"
        out.write(f"\n{message}\n".encode())
        out.flush()
        sys.exit(message)
    if without:
        print(f"parquet_to_jsonl.py: {without} rows without a text left out", file=sys.stderr)


if __name__ == "__main__":
    main()
