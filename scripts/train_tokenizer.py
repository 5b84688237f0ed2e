#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Learns a WordPiece vocabulary like BERT's from text, and writes it as tokenizer.json. Needs the package tokenizers.

  scripts/train_tokenizer.py quickstart/data/kjv.txt --vocabulary 2048 --out quickstart/data/wordpiece.json      2 seconds
"""
import argparse
import sys

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--vocabulary", type=int, default=2048, help="tokens, with the five special ones, which come first (default: 2048)")
    parser.add_argument("--cased", action="store_true", help="keep upper case and accents")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    try:
        from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    except ImportError:
        sys.exit("train_tokenizer.py: the Python package tokenizers is missing; pip install tokenizers")
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not arguments.cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train(arguments.files, trainers.WordPieceTrainer(vocab_size=arguments.vocabulary, special_tokens=SPECIAL, show_progress=False))
    if tokenizer.get_vocab_size() > arguments.vocabulary:
        sys.exit(f"train_tokenizer.py: the text has more characters than --vocabulary {arguments.vocabulary}; give at least {tokenizer.get_vocab_size()}")
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", SPECIAL.index("[SEP]")), ("[CLS]", SPECIAL.index("[CLS]")))
    tokenizer.save(arguments.out)


if __name__ == "__main__":
    main()
