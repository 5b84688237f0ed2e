#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares conversations packed by `trireme data pack-text --chat-template`, and by scripts/pack_chats.py from the model's own
template, with transformers' apply_chat_template.

Compares each token and its loss mask for random conversations in several scripts, with white space around contents.
Downloads nothing. Exits with 77 if Python lacks transformers, tokenizers or h5py.

  tests/checks/check_chat.py --trireme build/cpu/trireme
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from shared import SCRIPTS, packages, parser_of, run

with packages("transformers tokenizers h5py numpy"):
    import check_tokenizer
    import h5py
    import numpy
    from transformers import PreTrainedTokenizerFast

SPECIAL = {"chatml": ["<|im_start|>", "<|im_end|>"],
           "llama3": ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]}
# As in the models, with the marks by which transformers finds the assistant's content.
TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}{% if m['role'] == 'assistant' %}"
              "{% generation %}{{ m['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m['content'] + '<|im_end|>' }}{% endif %}"
              "{{ '\n' }}{% endfor %}",
    "llama3": "{{ '<|begin_of_text|>' }}{% for m in messages %}"
              "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' }}{% if m['role'] == 'assistant' %}"
              "{% generation %}{{ m['content'] | trim + '<|eot_id|>' }}{% endgeneration %}"
              "{% else %}{{ m['content'] | trim + '<|eot_id|>' }}{% endif %}{% endfor %}"}


def conversation(source):
    words = ["the", "Oars", "rame", "über", "日本語", "42", "x²", "don't", "\n", "\n\n", "  ", "\t", "🙂", "שלום", "...", "<|im_en", "\u00a0", "\u3000", "{}"]

    def text():
        return "".join(source.choice(words) + source.choice(["", " "]) for _ in range(source.randint(0, 12)))

    messages = [{"role": "system", "content": text()}] if source.random() < 0.5 else []
    for _ in range(source.randint(1, 3)):
        messages += [{"role": "user", "content": text()}, {"role": "assistant", "content": text()}]
    return messages


def packed(directory):
    """Tokens and loss mask of each document."""
    with h5py.File(os.path.join(directory, "shard_00000.h5")) as file:
        tokens, offsets = file["tokens"][:], file["document_offsets"][:]
        marks = numpy.unpackbits(file["loss_mask"][:], bitorder="little")[:len(tokens)]
    return [(tokens[a:b].tolist(), marks[a:b].tolist()) for a, b in zip(offsets[:-1], offsets[1:])]


def check(template, style, trireme, conversations, directory):
    base = next(it for it in check_tokenizer.styles() if it[0] == style)
    path = os.path.join(directory, f"{style}.json")
    texts = [message["content"] for messages in conversations for message in messages] * 20
    check_tokenizer.make_tokenizer((*base[:5], SPECIAL[template]), texts, path)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=path, chat_template=TEMPLATES[template], clean_up_tokenization_spaces=False)
    lines = os.path.join(directory, "chats.jsonl")
    pathlib.Path(lines).write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in conversations))
    out = os.path.join(directory, f"{template}_{style}")
    run([trireme, "data", "pack-text", lines, "--chat-template", template, "--tokenizer", path, "--split", "train", "--out", out])
    count = 0
    for number, (messages, ours) in enumerate(zip(conversations, packed(os.path.join(out, "train")), strict=True), 1):
        theirs = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
        if ours != (theirs["input_ids"], theirs["assistant_masks"]):
            sys.exit(f"{template}, {style}: conversation {number} differs:\n{messages}\n{ours}\n{theirs}")
        count += len(ours[0])
    print(f"{template}, tokenizer in the style of {style}: {count} tokens and their marks of {len(conversations)} conversations agree")


PHI3 = ("{% for m in messages %}{% if m['role'] == 'assistant' %}{{ '<|assistant|>\n' }}{% generation %}{{ m['content'] + '<|end|>' }}"
        "{% endgeneration %}{{ '\n' }}{% elif m['role'] in ['user', 'system', 'tool'] %}{{ '<|' + m['role'] + '|>\n' + m['content'] + '<|end|>\n' }}"
        "{% else %}{{ raise_exception('no such role') }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")


def own_format(source, messages):
    """As a line of one of the formats; Alpaca has two messages."""
    if [it["role"] for it in messages] == ["user", "assistant"] and source.random() < 0.5:
        return {"instruction": messages[0]["content"], "input": "", "output": messages[1]["content"]}
    if source.random() < 0.5:
        names = {"user": "human", "assistant": "gpt"}
        return {"conversations": [{"from": names.get(it["role"], it["role"]), "value": it["content"]} for it in messages]}
    return {"messages": messages}


def variants(template):
    """A template, without its marks, and without a header for add_generation_prompt."""
    unmarked = template.replace("{% generation %}", "").replace("{% endgeneration %}", "")
    yield from {"marked": template, "unmarked": unmarked, "headless": unmarked[:unmarked.index("{% if add_generation_prompt")]}.items()


def check_own_template(style, make, template, own, special, trireme, conversations, directory):
    """scripts/pack_chats.py: tokens and masks by a variant of the template are those of its marks; refused lines, and pieces."""
    variant, own_template = own
    model = pathlib.Path(directory, f"model_{style[0]}_{variant}")
    model.mkdir()
    texts = [message["content"] for messages in conversations for message in messages] * 20
    make((*style[:-1], special), texts, str(model / "tokenizer.json"))
    (model / "chat_template.jinja").write_text(own_template)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(model / "tokenizer.json"), chat_template=template, clean_up_tokenization_spaces=False)
    source, lines, out = random.Random(3), model / "chats.jsonl", str(model / "out")
    lines.write_text("".join(json.dumps(own_format(source, messages)) + "\n" for messages in conversations))
    packer = [sys.executable, str(SCRIPTS / "pack_chats.py"), str(model), "--trireme", trireme]
    run([*packer, str(lines), "--out", out, *([] if variant == "headless" else ["--pieces", str(model / "chat.json")])])
    count = 0
    for number, (messages, ours) in enumerate(zip(conversations, packed(out), strict=True), 1):
        theirs = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
        if ours != (theirs["input_ids"], theirs["assistant_masks"]):
            sys.exit(f"{style[0]}, {variant}: conversation {number} differs:\n{messages}\n{ours}\n{theirs}")
        count += len(ours[0])
    lines.write_text('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
                     '{"messages": [{"role": "narrator", "content": "a"}, {"role": "assistant", "content": "b"}]}\n')
    refused = subprocess.run([*packer, str(lines), "--out", out, "--force"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and f"{lines}:2: " in refused.stderr and "no such role" in refused.stderr, refused
    print(f"the model's own template ({variant}), tokenizer in the style of {style[0]}: {count} tokens and their marks of {len(conversations)} conversations agree")


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--conversations", type=int, default=300)
    arguments = parser.parse_args()
    source = random.Random(7)
    conversations = [conversation(source) for _ in range(arguments.conversations)]
    with tempfile.TemporaryDirectory() as directory:
        for template in TEMPLATES:
            for style in ("gpt2", "llama3", "qwen"):
                check(template, style, arguments.trireme, conversations, directory)
        special = [check_tokenizer.AddedToken(f"<|{it}|>", rstrip=True, special=True) for it in ("user", "assistant", "system", "tool", "end")]
        for own in variants(PHI3):
            for name in ("phi3", "t5"):
                style = next(it for it in check_tokenizer.word_styles() if it[0] == name)
                check_own_template(style, check_tokenizer.make_word_tokenizer, PHI3, own, special, arguments.trireme, conversations, directory)
            style = next(it for it in check_tokenizer.styles() if it[0] == "llama3")
            check_own_template(style, check_tokenizer.make_tokenizer, PHI3, own, special, arguments.trireme, conversations, directory)


if __name__ == "__main__":
    main()
