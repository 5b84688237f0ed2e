#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs text with a Hugging Face tokenizer.json into token shards (format: data/README.md).

Each file is a document, or each part that --document-separator ends; --end-token adds a token after each document.
Tokens go through a nameless temporary file next to OUT, so neither the text nor the tokens have to fit in memory.

Examples:
  scripts/pack_tokenizer.py --tokenizer tokenizer.json --out data/books --validation 0.05 books/
  scripts/pack_tokenizer.py --tokenizer tokenizer.json --out data/web --document-separator '\\n\\n' - < web.txt
"""
import argparse
import collections
import os
import shutil
import signal
import socket
import sys
import tempfile

MODULES = ["h5py", "numpy", "tokenizers", "xxhash"]
try:
    import numpy
    import tokenizers
    import xxhash

    from shard_writer import sync, write_shard
except ImportError as error:
    sys.exit(f"pack_tokenizer.py: {error}; install with: pip install {' '.join(MODULES)}")

DATA_ERROR, CONFIG_ERROR = 3, 2
BATCH_DOCUMENTS = 256


def stop(code, message):
    print(f"pack_tokenizer.py: {message}", file=sys.stderr)
    sys.exit(code)


def identity(path):
    status = os.stat(path)
    return status.st_dev, status.st_ino


def files_below(top):
    """Each file once, by the rules of `trireme data pack-text` (data/README.md); reports what it leaves out."""
    own, linked, waiting, folders_seen = [], [], [top], set()
    left_out = collections.Counter()
    while waiting:
        links = []
        for start in sorted(waiting):
            if start != top and identity(start) in folders_seen:
                left_out["linked twice"] += 1
                continue
            for folder, folders, files in os.walk(start):
                if identity(folder) in folders_seen:
                    folders.clear()
                    continue
                folders_seen.add(identity(folder))
                left_out["hidden"] += sum(name.startswith(".") for name in folders + files)
                folders[:] = [name for name in folders if not name.startswith(".")]
                links += [path for path in (os.path.join(folder, name) for name in folders) if os.path.islink(path)]
                for path in (os.path.join(folder, name) for name in files if not name.startswith(".")):
                    if os.path.isfile(path):
                        (linked if os.path.islink(path) or start != top else own).append(path)
                    else:
                        left_out["links to nothing" if os.path.islink(path) else "neither files nor folders"] += 1
        waiting = links
    seen = {identity(path) for path in own} if linked else set()
    for path in sorted(linked):
        if identity(path) in seen:
            left_out["linked twice"] += 1
        else:
            seen.add(identity(path))
            own.append(path)
    if text := ", ".join(f"{count} {what}" for what, count in left_out.items() if count):
        print(f"{top}: left out {text}", file=sys.stderr)
    return sorted(own)


def list_files(inputs):
    for path in inputs:
        if path == "-" or os.path.isfile(path):
            yield path
        elif os.path.isdir(path):
            yield from files_below(path)
        else:
            stop(DATA_ERROR, f"{path}: no such file or directory")


def documents(inputs, separator):
    """Every document as text; a separator stays at the end of the document that it ends."""
    for path in list_files(inputs):
        with sys.stdin.buffer if path == "-" else open(path, "rb") as file:
            rest = b""
            while separator:
                block = file.read(1 << 22)
                if not block:
                    break
                *whole, rest = (rest + block).split(separator)
                for part in whole:
                    yield decoded(part + separator, path)
            rest += file.read()
            if rest:
                yield decoded(rest, path)


def decoded(data, path):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        stop(DATA_ERROR, f"{path}: is not UTF-8 ({error.reason} near {data[error.start:error.start + 8]!r}); convert it, or pack its "
             "bytes with `trireme data pack-text`")


def batches(items, size):
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def spool_tokens(arguments, tokenizer, dtype, spool):
    """Writes all tokens to `spool`; gives the start of each document and the token count."""
    end = [tokenizer.token_to_id(arguments.end_token)] if arguments.end_token else []
    if None in end:
        stop(CONFIG_ERROR, f"--end-token: {arguments.end_token!r} is not in {arguments.tokenizer}")
    separator = arguments.document_separator.encode().decode("unicode_escape").encode("latin-1")
    starts, total, shown = [], 0, 0
    for batch in batches(documents(arguments.inputs, separator), BATCH_DOCUMENTS):
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
            ids = numpy.asarray(encoding.ids + end, dtype)
            if len(ids) == 0:
                continue
            starts.append(total)
            ids.tofile(spool)
            total += len(ids)
        if total - shown >= 10_000_000 and not arguments.quiet:
            print(f"tokenized {len(starts)} documents, {total} tokens", file=sys.stderr)
            shown = total
    if total == 0:
        stop(DATA_ERROR, f"{', '.join(arguments.inputs)}: no text found; every input is empty")
    spool.flush()
    return numpy.asarray(starts, numpy.uint64), total


def write_split(directory, shown, tokens, starts, first, last, arguments, tokenizer_name, vocabulary):
    """Shards for tokens [first, last) of the stream."""
    os.makedirs(directory, exist_ok=True)
    count = -(-(last - first) // arguments.shard_tokens)
    for index in range(count):
        begin = first + index * arguments.shard_tokens
        end = min(begin + arguments.shard_tokens, last)
        inner = starts[numpy.searchsorted(starts, begin, "right"):numpy.searchsorted(starts, end, "left")]
        continues = int(starts[numpy.searchsorted(starts, begin, "right") - 1] != begin)
        offsets = numpy.concatenate([[begin], inner, [end]]).astype(numpy.uint64) - numpy.uint64(begin)
        fields = {"format": "trireme-shard", "version": 1, "kind": "tokens", "dtype": tokens.dtype.name,
                  "shard_index": index, "shard_count": count, "count": end - begin, "documents": len(offsets) - 1,
                  "continues": continues, "tokenizer": tokenizer_name, "vocabulary": vocabulary}
        write_shard(os.path.join(directory, f"shard_{index:05}.h5"), tokens[begin:end], offsets, fields)
    print(f"{shown}: {last - first} tokens in {count} shard{'' if count == 1 else 's'}")


def check_target(target, force):
    if not os.path.lexists(target) or (os.path.isdir(target) and not os.listdir(target)):
        return
    if not force or not os.path.isdir(target):
        stop(CONFIG_ERROR, f"{target}: already exists; use --force to replace the data set or choose another --out")
    for folder, _, files in os.walk(target):
        for name in files:
            if not (name.startswith("shard_") and name.endswith((".h5", ".h5.tmp"))):
                stop(CONFIG_ERROR, f"{target}: --force replaces data sets only, and {os.path.join(folder, name)} is not part of one")


def publish(stage, target):
    """Gives the finished directory its name; a data set that was there before is then removed."""
    sync(stage)
    old = None
    if os.path.isdir(target) and os.listdir(target):
        old = stage + ".old"
        os.rename(target, old)
    os.rename(stage, target)
    sync(os.path.dirname(os.path.abspath(target)))
    if old:
        shutil.rmtree(old)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", help="files, directories, or - for stdin")
    parser.add_argument("--tokenizer", required=True, help="tokenizer.json of the tokenizers library")
    parser.add_argument("--out", required=True, help="directory to make")
    parser.add_argument("--validation", type=float, help="fraction of the tokens, from the end, for OUT/validation; the rest goes to OUT/train (0: all)")
    parser.add_argument("--split", default="", help="write OUT/SPLIT")
    parser.add_argument("--document-separator", default="", help="ends a document besides the end of a file, e.g. '\\n\\n'")
    parser.add_argument("--end-token", default="", help="token to add after each document, e.g. '<|endoftext|>'")
    parser.add_argument("--shard-tokens", type=int, default=1 << 28)
    parser.add_argument("--dtype", choices=["auto", "uint16", "uint32"], default="auto")
    parser.add_argument("--force", action="store_true", help="replace an existing data set")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    arguments = parser.parse_args()
    if arguments.validation is not None and not 0 <= arguments.validation < 1:
        parser.error(f"--validation: {arguments.validation} is not allowed; use a fraction from 0 up to, not including, 1")
    if arguments.split and arguments.validation is not None:
        parser.error("--split and --validation exclude each other")
    if arguments.shard_tokens < 1:
        parser.error(f"--shard-tokens: {arguments.shard_tokens} is not allowed; use 1 or more")
    return arguments


def pack(arguments, tokenizer, dtype, vocabulary, name, target, stage):
    with tempfile.TemporaryFile(dir=os.path.dirname(stage)) as spool:
        starts, total = spool_tokens(arguments, tokenizer, dtype, spool)
        tokens = numpy.memmap(spool, dtype, "r", shape=(total,))
        if arguments.validation:
            if total < 2:
                stop(DATA_ERROR, f"--validation: {total} tokens cannot be split in two")
            cut = total - min(max(round(total * arguments.validation), 1), total - 1)
            splits = [("train", 0, cut), ("validation", cut, total)]
        else:
            splits = [("" if arguments.validation is None else "train", 0, total)]
        for split, first, last in splits:
            write_split(*(os.path.join(root, split).rstrip("/") for root in (stage, target)), tokens, starts, first, last, arguments, name, vocabulary)
    publish(stage, target)


def main():
    arguments = parse_arguments()
    try:
        with open(arguments.tokenizer, "rb") as file:
            digest = xxhash.xxh3_64_hexdigest(file.read())
        tokenizer = tokenizers.Tokenizer.from_file(arguments.tokenizer)
    except Exception as error:  # the library raises plain Exception for a bad file
        stop(DATA_ERROR, f"{arguments.tokenizer}: cannot be read as a tokenizer.json: {error}")
    vocabulary = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    dtype = numpy.dtype(("uint16" if vocabulary <= 1 << 16 else "uint32") if arguments.dtype == "auto" else arguments.dtype)
    if vocabulary > 1 << (8 * dtype.itemsize):
        stop(CONFIG_ERROR, f"--dtype: {dtype.name} cannot hold a vocabulary of {vocabulary}; use uint32")
    name = f"huggingface:{os.path.basename(arguments.tokenizer)}:xxh3={digest}"
    target = os.path.join(arguments.out, arguments.split).rstrip("/")
    check_target(target, arguments.force)
    stage = f"{target}.partial-{os.getpid()}-{socket.gethostname()}"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # unwinds, so that `finally` removes the stage
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: stop(128 + number, f"stopped by signal {number}; nothing was written"))
    try:
        os.makedirs(stage)
        pack(arguments, tokenizer, dtype, vocabulary, name, target, stage)
    except OSError as error:
        stop(1, f"{target}: {error}")
    finally:
        shutil.rmtree(stage, ignore_errors=True)


if __name__ == "__main__":
    main()
