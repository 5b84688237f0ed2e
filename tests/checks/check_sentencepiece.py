#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the tokens of `trireme data pack-text --tokenizer X.model` with those of Python's sentencepiece.

Trains models on local text (BPE, unigram, and one like Llama 2's); downloads nothing. Both read the text of
check_tokenizer.py, with code points of every kind and invalid UTF-8. Exits with 77 if Python lacks sentencepiece or a
module of check_tokenizer.py.

  tests/checks/check_sentencepiece.py --trireme build/cpu/trireme
"""
import os
import tempfile

from check_tokenizer import check_documents, mixed_text, texts_at_hand
from shared import packages, parser_of

with packages("sentencepiece"):
    import sentencepiece

LLAMA2 = {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
          "split_digits": True, "allow_whitespace_only_pieces": True}
MODELS = {"bpe": {"model_type": "bpe"}, "unigram": {"model_type": "unigram"}, "llama2": LLAMA2,
          "no_prefix": {"model_type": "bpe", "add_dummy_prefix": False, "remove_extra_whitespaces": False}}


def train(name, options, texts, directory):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for text in texts for line in text.splitlines() if line), model_prefix=os.path.join(directory, name),
        vocab_size=3000, character_coverage=0.999, minloglevel=2, input_sentence_size=20000, **options)
    return os.path.join(directory, f"{name}.model")


def check(name, path, arguments, documents, directory):
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    check_documents(name, "sentencepiece", path, arguments, documents, directory,
                    lambda texts: processor.encode(texts, num_threads=arguments.threads), processor.id_to_piece)


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--megabytes", type=int, default=4, help="of text in documents")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    texts = texts_at_hand()
    documents = mixed_text(arguments.megabytes * 1_000_000, texts)
    with tempfile.TemporaryDirectory() as directory:
        for name, options in MODELS.items():
            check(name, train(name, options, texts[:300], directory), arguments, documents, directory)


if __name__ == "__main__":
    main()
