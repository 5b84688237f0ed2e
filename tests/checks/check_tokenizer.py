#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the tokens of `trireme data pack-text --tokenizer` with those of the tokenizers library.

Makes tokenizer.json files in the styles of GPT-2, Llama 3, Qwen and others from local text; downloads nothing. The text
is a mix: files, all code points, white space, contractions, accents in every normal form, long runs and invalid UTF-8.
Exits with 77 if Python lacks tokenizers or h5py.

  tests/checks/check_tokenizer.py --trireme build/cpu/trireme                    a few MB of text, some minutes
  tests/checks/check_tokenizer.py --trireme build/cpu/trireme --megabytes 100 --whole 1 --threads 2 --styles llama3    with the time of both (half a minute)
"""
import json
import os
import pathlib
import random
import resource
import sys
import tempfile
import time
import unicodedata

from shared import REPOSITORY, packages, parser_of, run

with packages("tokenizers h5py numpy"):
    import h5py
    import numpy
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SEPARATOR = "\x1e"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"])
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(use_regex=False, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def styles():
    """Name, pre-tokenizer, normalizer, whole words first, merges as text, added tokens."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    sequence = pre_tokenizers.Sequence
    mask = AddedToken("<mask>", lstrip=True, special=True)
    yield "gpt2", byte_level(True), None, False, True, special[:1]
    yield "llama3", sequence([split(LLAMA3), byte_level()]), None, True, False, special + [f"<|reserved_{i}|>" for i in range(250)]
    yield "qwen", sequence([split(QWEN), byte_level()]), normalizers.NFC(), False, True, special + [AddedToken("café", normalized=True)]
    yield "o200k", sequence([split(O200K, "removed", True), byte_level()]), None, True, False, special
    yield "deepseek", sequence([split(it) for it in DEEPSEEK] + [byte_level()]), None, False, False, special
    yield "smollm", sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]), None, False, False, special
    yield "roberta", byte_level(True, prefix=True), None, False, False, [mask, AddedToken("word", single_word=True), AddedToken("tail", rstrip=True)]
    yield "merging", sequence([split(r"\s", "merged_with_next"), byte_level()]), normalizers.Sequence([normalizers.NFC()]), False, False, special
    yield "previous", sequence([split(r"[\n.]", "merged_with_previous"), pre_tokenizers.Digits(), byte_level(True)]), None, False, True, special


def make_tokenizer(style, texts, path):
    name, splitter, normalizer, whole, merges_as_text, added = style
    tokenizer = Tokenizer(models.BPE(ignore_merges=whole))
    tokenizer.pre_tokenizer = splitter
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=6000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
                                  special_tokens=[it for it in added[:1] if name == "gpt2"])
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([it for it in added if isinstance(it, str) or it.special])
    tokenizer.add_tokens([it for it in added if not isinstance(it, str) and not it.special])
    tokenizer.save(path)
    data = json.loads(pathlib.Path(path).read_text())
    if merges_as_text:
        data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    pathlib.Path(path).write_text(json.dumps(data, ensure_ascii=name == "gpt2"))
    return Tokenizer.from_file(path)


def char_map(pairs):
    """A table of characters as SentencePiece compiles it: a double array (Darts-clone) and the texts of its leaves."""
    texts, trie = b"", {}
    for key, value in pairs.items():
        node = trie
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[None] = len(texts)
        texts += value.encode() + b"\0"
    units, taken = [0] * 256, {0}

    def place(node, at):
        letters = [it for it in node if it is not None]
        children = next(base for base in range(0, 1 << 20, 256) if not any((at ^ base ^ it) in taken for it in (*letters, 0)))
        start = at ^ children
        units.extend([0] * ((start | 255) + 1 - len(units)))
        taken.update(start ^ it for it in (*letters, 0))
        units[at] |= children << 2 | 1 << 9 if children >= 1 << 21 else children << 10
        if None in node:
            units[at] |= 1 << 8
            units[start] = 1 << 31 | node[None]
        for letter in letters:
            units[start ^ letter] |= letter
            place(node[letter], start ^ letter)

    place(trie, 0)
    array = numpy.asarray(units, "<u4").tobytes()
    return numpy.uint32(len(array)).tobytes() + array + texts


def word_styles():
    """Like styles(), for models of words and characters: name, tokenizer without vocabulary, trainer, added tokens."""
    bert = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]"]
    llama = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    sequence, metaspace = normalizers.Sequence, pre_tokenizers.Metaspace
    mark = "\u2581"

    def word_piece(lower, accents=None, clean=True, **more):
        made = Tokenizer(models.WordPiece(unk_token="[UNK]", **more))
        made.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=accents, clean_text=clean, handle_chinese_chars=clean)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece(cleanup=clean)
        return made, trainers.WordPieceTrainer(vocab_size=3000, special_tokens=bert, show_progress=False)

    def pairs(normalizer, splitter, decoder, special=llama, **more):
        made = Tokenizer(models.BPE(**more))
        if normalizer:
            made.normalizer = normalizer
        if splitter:
            made.pre_tokenizer = splitter
        made.decoder = decoder
        return made, trainers.BpeTrainer(vocab_size=3000, special_tokens=special, show_progress=False, limit_alphabet=90)

    def unigram(normalizer, splitter, special=("<pad>", "</s>", "<unk>")):
        made = Tokenizer(models.Unigram())
        made.normalizer, made.pre_tokenizer, made.decoder = normalizer, splitter, decoders.Metaspace(prepend_scheme="always")
        return made, trainers.UnigramTrainer(vocab_size=3000, special_tokens=list(special), unk_token="<unk>", show_progress=False)

    back = [decoders.Replace(mark, " "), decoders.ByteFallback(), decoders.Fuse()]
    spaces = normalizers.Replace(" ", mark)
    odd = {"\u00a0": " ", "\u3000": " ", "\ufb01": "fi", "\u00bd": "1/2", "e\u0301": "\u00e9", "\u2126": "\u03a9", "\u200b": "", "\t": " ",
           "\u1100\u1161": "\uac00", "\u2028": " ", "A": "a"}
    yield "bert", *word_piece(True), [AddedToken("caf\u00e9", normalized=True), AddedToken("[E]", lstrip=True, special=True)]
    yield "bert_cased", *word_piece(False, max_input_chars_per_word=9), []
    yield "bert_accents", *word_piece(True, False, False), [AddedToken("word", single_word=True)]
    yield ("llama2", *pairs(sequence([normalizers.Prepend(mark), spaces]), None, decoders.Sequence([*back, decoders.Strip(" ", 1, 0)]), unk_token="<unk>",
                            fuse_unk=True, byte_fallback=True), [])
    yield ("phi3", *pairs(sequence([normalizers.Prepend(mark), spaces]), None, decoders.Sequence([*back, decoders.Strip(" ", 1, 0)]), unk_token="<unk>",
                          fuse_unk=True, byte_fallback=True), [AddedToken(it, rstrip=True, special=True) for it in ("<|im_start|>", "<|im_end|>", "<|endoftext|>")])
    yield ("mistral", *pairs(None, metaspace(prepend_scheme="first", split=False), decoders.Sequence([*back, decoders.Strip(" ", 1, 0)]), unk_token="<unk>",
                             byte_fallback=True, ignore_merges=True), ["<|im_start|>"])
    yield ("gemma", *pairs(spaces, pre_tokenizers.Split(" ", "merged_with_previous"), decoders.Sequence(back), unk_token="<unk>", fuse_unk=True,
                           byte_fallback=True), [AddedToken("\n\n", normalized=False), AddedToken(mark * 2, normalized=False)])
    yield "unknowns", *pairs(normalizers.NFKD(), pre_tokenizers.Whitespace(), None, ["<unk>"], unk_token="<unk>", fuse_unk=True), []
    yield ("unknown", *pairs(sequence([normalizers.NFKC(), normalizers.StripAccents(), normalizers.Lowercase()]), pre_tokenizers.Sequence([
        pre_tokenizers.Digits(True), pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]), None, ["<unk>"], unk_token="<unk>"), [])
    yield ("t5", *unigram(sequence([normalizers.Precompiled(char_map(odd)), normalizers.Strip(False, True), normalizers.Replace(Regex(" {2,}"), mark)]),
                          metaspace()), ["<|im_start|>"])
    yield ("xlm_roberta", *unigram(normalizers.Precompiled(char_map(odd)), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace()])),
           [AddedToken("<mask>", lstrip=True, special=True)])
    yield ("albert", *unigram(sequence([normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                        normalizers.Strip(True, True)]), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace()])), [])
    yield "unigram_bytes", *unigram(normalizers.NFD(), metaspace(prepend_scheme="never"), ("<pad>", "<unk>", *llama[3:])), []
    yield "unigram_whole", *unigram(normalizers.NFC(), metaspace(prepend_scheme="first", split=False)), []


def make_word_tokenizer(style, texts, path):
    name, tokenizer, trainer, added = style
    keeper, tokenizer.post_processor = tokenizer.pre_tokenizer, None
    # Learning wants words; some files have none.
    if name in ("llama2", "phi3", "mistral", "gemma", "unigram_whole"):
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator([text[:20000] for text in texts], trainer)
    if keeper:
        tokenizer.pre_tokenizer = keeper
    tokenizer.add_special_tokens([it for it in added if isinstance(it, str) or it.special])
    tokenizer.add_tokens([it for it in added if not isinstance(it, str) and not it.special])
    tokenizer.save(path)
    data = json.loads(pathlib.Path(path).read_text())
    if not keeper:
        data["pre_tokenizer"] = None
    if name == "unigram_bytes":
        data["model"]["byte_fallback"] = True
    pathlib.Path(path).write_text(json.dumps(data))
    return Tokenizer.from_file(path)


def texts_at_hand():
    """Long texts of this repository and of the system."""
    found = []
    for pattern in ("**/*.md", "runtime/**/*.cpp", "data/**/*.cpp", "scripts/**/*.py", "configs/**/*.yaml"):
        found += sorted(REPOSITORY.glob(pattern))
    found += sorted(pathlib.Path("/usr/share/i18n/locales").glob("*"))[:200]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in found]
    return [text for text in texts if len(text) > 1000]


def is_old(letter):
    """Excludes recently assigned code points, for which two libraries have different classes."""
    return unicodedata.category(letter) not in ("Cn", "Cs")


def mixed_document(source, texts):
    """Bytes of one document: a few parts of different kinds."""
    odd_words = ["I'll", "we'VE", "it'ſ", "naïve", "Ǆ", "ﬁt", "don't", "x²", "½", "٣٤٥", "12345678", "word", "tail", "<mask>", "<|endoftext|>",
                 "<|im_start|>user", "<|im_en", "café", "cafe\u0301", "가", "\u1100\u1161\u11a8", "日本語テキスト", "🙂👍🏽", "שלום", "हिन्दी", "\u180e", "\u200b",
                 "snake_case", "CamelCase", "...", "!?", "---", "//", "\\n", "a\u0327\u0301", "Ω", "\u2126", "ế", "\ufeff", "\ufffd"]
    spaces = [" ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", " \n", "\u00a0", "\u3000", "\u2028", "\u0085", "      ", "\n   "]
    parts = []
    for _ in range(source.randint(1, 6)):
        kind = source.random()
        if kind < 0.45:
            text = source.choice(texts)
            start = source.randrange(max(1, len(text) - 200))
            parts.append(text[start:start + source.randint(20, 3000)].encode())
        elif kind < 0.75:
            parts.append("".join(source.choice(odd_words) + source.choice(spaces) for _ in range(source.randint(1, 60))).encode())
        elif kind < 0.85:
            codes = [source.randrange(0x110000 if source.random() < 0.2 else 0x3000) for _ in range(source.randint(1, 60))]
            parts.append("".join(filter(is_old, map(chr, codes))).encode())
        elif kind < 0.9:
            parts.append(unicodedata.normalize(source.choice(["NFD", "NFC"]), source.choice(texts)[:500] + "ÅÄÖ ñ ǖ ộ 각 が").encode())
        elif kind < 0.95:
            parts.append(source.choice([b"a", b" ", b"\n", b"=", b"1", "あ".encode(), b"ab", b" x"]) * source.randint(1, 400))
        else:
            parts.append(bytes(source.randrange(256) for _ in range(source.randint(1, 40))))
    return b"".join(parts).replace(SEPARATOR.encode(), b"")


def mixed_text(size, texts):
    """Documents as bytes. The first has every code point that Python knows; for a small text one in 17 from U+3100
    on."""
    source = random.Random(7)
    points = range(0x110000) if size >= 2_000_000 else [*range(0x3100), *range(0x3100, 0x110000, 17)]
    documents = ["".join(it + (" " if ord(it) % 3 == 0 else "") for it in filter(is_old, map(chr, points)) if it != SEPARATOR).encode()]
    total = 0
    while total < size:
        documents.append(mixed_document(source, texts) or b"x")
        total += len(documents[-1])
    return documents


def stored(directory):
    with h5py.File(os.path.join(directory, "shard_00000.h5"), "r") as file:
        return file["tokens"][:].astype(numpy.int64), file["document_offsets"][:], file.attrs["tokenizer"]


def cpu_seconds(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def pack(arguments, out, path, tokenizer, more=()):
    """Seconds of the whole program: CPU time and wall time."""
    start, wall = cpu_seconds(resource.RUSAGE_CHILDREN), time.monotonic()
    run([arguments.trireme, "data", "pack-text", path, "--out", out, "--tokenizer", tokenizer, "--quiet", "--force", *more])
    return cpu_seconds(resource.RUSAGE_CHILDREN) - start, time.monotonic() - wall


def compare(name, what, ours, theirs, piece):
    if len(ours) == len(theirs) and (ours == theirs).all():
        return
    same = min(len(ours), len(theirs))
    different = numpy.flatnonzero(ours[:same] != theirs[:same])
    at = int(different[0]) if len(different) else same
    show = [f"{ids[at - 5:at + 10].tolist()} {[piece(it) for it in ids[at - 5:at + 10].tolist()]}" for ids in (ours, theirs)]
    sys.exit(f"{name}: {what}: {len(ours)} tokens against {len(theirs)}, the first difference at {at}:\n  trireme    {show[0]}\n  tokenizers {show[1]}")


def check_documents(name, maker, path, arguments, documents, directory, encode, piece):
    """Packs the documents and compares each token with `encode`, which maps a list of texts to a list of ids each.
    `maker`: the shards' name of the tokenizer; `piece` is the text of an id, to show a difference. Returns texts and ids."""
    data, out = os.path.join(directory, "text"), os.path.join(directory, "out")
    separator = SEPARATOR.encode()
    pathlib.Path(data).write_bytes(separator.join(documents))
    ours_seconds, ours_wall = pack(arguments, out, data, path, ["--document-separator", "\\x1e", "--threads", str(arguments.threads)])
    ours, offsets, stored_name = stored(out)
    texts = [(it + separator).decode(errors="replace") for it in documents[:-1]] + [documents[-1].decode(errors="replace")]
    start, wall = cpu_seconds(resource.RUSAGE_SELF), time.monotonic()
    # In slices: the library's objects for 100 MB would take many GB.
    theirs = [numpy.asarray(it, numpy.int64) for at in range(0, len(texts), 1000) for it in encode(texts[at:at + 1000])]
    theirs_seconds, theirs_wall = cpu_seconds(resource.RUSAGE_SELF) - start, time.monotonic() - wall
    compare(name, "documents", ours, numpy.concatenate(theirs), piece)
    # A document without tokens does not count.
    starts = numpy.unique(numpy.concatenate([[0], numpy.cumsum([len(it) for it in theirs])]))
    assert numpy.array_equal(offsets, starts), f"{name}: documents begin elsewhere"
    assert stored_name.decode().startswith(f"{maker}:{os.path.basename(path)}:xxh3="), stored_name
    size = sum(map(len, documents)) * 1e-6
    print(f"{name:<10} {len(ours):>10} tokens of {size:.1f} MB agree; MB/s with {arguments.threads} thread(s), of CPU time in brackets: trireme "
          f"{size / ours_wall:.1f} ({size / ours_seconds:.1f}), the library {size / theirs_wall:.1f} ({size / theirs_seconds:.1f})", flush=True)
    return texts, theirs


def check_style(style, make, arguments, documents, texts, directory):
    name = style[0]
    path = os.path.join(directory, f"{name}.json")
    tokenizer = make(style, texts, path)
    decoded, theirs = check_documents(name, "huggingface", path, arguments, documents, directory,
                                      lambda part: [it.ids for it in tokenizer.encode_batch_fast(part, add_special_tokens=False)], tokenizer.id_to_token)
    data, out = os.path.join(directory, "text"), os.path.join(directory, "out")
    whole = b"\n".join(documents)[:arguments.whole * 1_000_000]
    pathlib.Path(data).write_bytes(whole)
    pack(arguments, out, data, path, ["--end-token", tokenizer.id_to_token(5)])
    compare(name, "one long document", stored(out)[0],
            numpy.asarray(tokenizer.encode(whole.decode(errors="replace"), add_special_tokens=False).ids + [5], numpy.int64), tokenizer.id_to_token)

    lines = [json.dumps({"id": i, "text": text, "x": {"text": 1}}, ensure_ascii=i % 2 == 0) for i, text in enumerate(decoded[1:2000])]
    pathlib.Path(data).write_text("\n".join(lines))
    pack(arguments, out, data, path, ["--json-field", "text"])
    compare(name, "JSON lines", stored(out)[0], numpy.concatenate(theirs[1:2000]), tokenizer.id_to_token)


def changed_files(data, source, count):
    """Copies of a tokenizer.json with one value that is missing or of another type, and the place of each."""
    def places(value, path):
        inner = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
        for key, item in inner if len(inner) < 40 else inner[:3]:
            yield (*path, key)
            yield from places(item, (*path, key))

    every = list(places(data, ()))
    for path in [source.choice(every) for _ in range(count)]:
        copy = json.loads(json.dumps(data))
        parent = copy
        for key in path[:-1]:
            parent = parent[key]
        value = source.choice(["-", None, True, False, -1, 3.7, 10 ** 12, "", "x", "1", [], ["x"], {}, {"x": 1}])
        if value == "-":
            del parent[path[-1]]
        else:
            parent[path[-1]] = value
        yield f"{'.'.join(map(str, path))} = {value!r}", copy


def check_fields(style, make, arguments, texts, directory):
    """A file with a wrong field is refused, or read as the library reads it."""
    path, changed = os.path.join(directory, f"{style[0]}.json"), os.path.join(directory, "changed.json")
    make(style, texts, path)
    data, out, text = os.path.join(directory, "text"), os.path.join(directory, "out"), "The word caf\u00e9 x tail  1234 can't\n<mask> [E] don't"
    pathlib.Path(data).write_text(text)
    source, read = random.Random(style[0]), 0
    for what, copy in changed_files(json.loads(pathlib.Path(path).read_text()), source, arguments.fields):
        pathlib.Path(changed).write_text(json.dumps(copy))
        command = [arguments.trireme, "data", "pack-text", data, "--out", out, "--tokenizer", changed, "--quiet", "--force"]
        if run(command, codes=(0, 2, 3)).returncode != 0:
            continue
        read += 1
        try:
            theirs = Tokenizer.from_file(changed).encode(text, add_special_tokens=False).ids
        except Exception as error:  # noqa: BLE001  of whatever kind
            sys.exit(f"{style[0]}: {what} is read, but the library refuses it: {error}")
        if stored(out)[0].tolist() != theirs:
            sys.exit(f"{style[0]}: {what} is read otherwise than by the library:\n{stored(out)[0].tolist()}\n{theirs}")
    print(f"{style[0]}: of {arguments.fields} files with a wrong field {read} are read, as by the library")


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--megabytes", type=int, default=6, help="of text in documents")
    parser.add_argument("--whole", type=int, default=3, help="megabytes of one document")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--fields", type=int, default=0, help="instead: so many files of each style with a wrong field")
    parser.add_argument("--styles", default="", help="only these, separated by commas")
    arguments = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(arguments.threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    texts = texts_at_hand()
    documents = mixed_text(arguments.megabytes * 1_000_000, texts)
    with tempfile.TemporaryDirectory() as directory:
        for style, make in [(it, make_tokenizer) for it in styles()] + [(it, make_word_tokenizer) for it in word_styles()]:
            if arguments.styles and style[0] not in arguments.styles.split(","):
                continue
            if arguments.fields:
                check_fields(style, make, arguments, texts[:300], directory)
            else:
                check_style(style, make, arguments, documents, texts[:300], directory)


if __name__ == "__main__":
    main()
