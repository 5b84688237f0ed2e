#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs conversations by the chat template of a model, as transformers renders them; targets are the assistant's answers.

MODEL is a directory with tokenizer.json, and chat_template.jinja or a chat_template in tokenizer_config.json (a Hugging Face
model, or a run that imported one). A line of a file is {"messages": [{"role", "content"}, ...]} (any roles of the template,
and "tools"), ShareGPT's {"conversations": [{"from", "value"}, ...]} or Alpaca's {"instruction", "input", "output"}. An answer
is learned up to its end token: what the template marks by {% generation %}, else it is found by rendering the conversation up
to it; a template that rewrites earlier messages is then refused, unless --last learns only the last answer. Needs the packages jinja2 and tokenizers.

  scripts/pack_chats.py MODEL chats.jsonl --out data/chats --validation 0.05
  scripts/pack_chats.py MODEL --pieces RUN/chat.json       for `trireme generate RUN --chat`, which needs no Python
"""
import argparse
import json
import pathlib
import random
import re
import subprocess
import sys

MARKS = "\ufdd0\ufdd1"  # noncharacters, which no text has
ROLES = {"human": "user", "gpt": "assistant", "observation": "tool", "function": "tool", "function_response": "tool"}


class BadDialogue(Exception):
    pass


def read_json(path):
    return json.loads(path.read_text()) if path.exists() else {}


class Template:
    def __init__(self, model, date):
        import jinja2
        import jinja2.sandbox
        from tokenizers import Tokenizer

        def refuse(message):
            raise jinja2.exceptions.TemplateError(message)

        def now(pattern):
            if date is None:
                raise jinja2.exceptions.TemplateError("it writes today's date; name a date by --date YYYY-MM-DD")
            return date.strftime(pattern)

        self.errors = (jinja2.exceptions.TemplateError, TypeError, ValueError, KeyError, AttributeError)
        config = read_json(model / "tokenizer_config.json")
        path = model / "chat_template.jinja"
        source = path.read_text() if path.exists() else config.get("chat_template") or read_json(model / "chat_template.json").get("chat_template")
        if isinstance(source, list):
            source = next((it["template"] for it in source if it["name"] == "default"), None)
        if not source:
            sys.exit(f"{model}: has no chat_template.jinja, nor a chat_template in tokenizer_config.json")
        # transformers' own tag around what the assistant says; MARKS take its place.
        for tag, mark, inside in (("generation", MARKS[0], "if true"), ("endgeneration", MARKS[1], "endif")):
            source, marked = re.subn(r"\{%(-?)\s*" + tag + r"\s*(-?)%\}", r"{%\1 " + inside + " %}{{ '" + mark + "' }}{% " + inside + r" \2%}", source)
        self.marked = marked > 0
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        environment.filters["tojson"] = lambda it, indent=None, ensure_ascii=False, separators=None, sort_keys=False: json.dumps(
            it, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
        environment.globals.update(raise_exception=refuse, strftime_now=now)
        self.template = environment.from_string(source)
        self.special = {name: value["content"] if isinstance(value, dict) else value for name, value in config.items() if name.endswith("_token") and value}
        self.path = model / "tokenizer.json"
        self.tokenizer = Tokenizer.from_file(str(self.path))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.added = {id for id, token in self.tokenizer.get_added_tokens_decoder().items() if token.special}

    def text(self, messages, tools=None, answers=False, marks=False):
        try:
            text = self.template.render(messages=messages, tools=tools, documents=None, add_generation_prompt=answers, **self.special)
            return text if marks else re.sub(f"[{MARKS}]", "", text)
        except self.errors as error:
            raise BadDialogue(f"the template refuses the dialogue: {error}") from error

    def same_tokens(self, ids, text):
        """How many tokens begin both; what a template writes only at its end is in one."""
        other = self.tokenizer.encode(text, add_special_tokens=False).ids
        return next((at for at, (a, b) in enumerate(zip(ids, other)) if a != b), min(len(ids), len(other)))

    def marked_tokens(self, messages, tools, last):
        """As transformers: each token of what is between two marks."""
        parts = re.split(f"[{MARKS}]", self.text(messages, tools, marks=True))
        tokens = self.tokenizer.encode("".join(parts), add_special_tokens=False)
        ends = [sum(map(len, parts[:i + 1])) for i in range(len(parts))]
        said = list(zip(ends[::2], ends[1::2]))[-1 if last else 0:]
        learn = [int(any(a < end and begin < b for begin, end in said)) for a, b in tokens.offsets]
        if 1 not in learn:
            raise BadDialogue("the template marks nothing of it by {% generation %}, so no token is a target")
        return {"ids": tokens.ids, "learn": learn}

    def content_place(self, messages, tools):
        """Where the content of the last message begins."""
        one, other = (self.text([*messages[:-1], {**messages[-1], "content": it}], tools) for it in ("Aa2", "Bb3"))
        return next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), len(one))

    def encoded(self, messages, tools, last):
        """Ids, and 1 for those of answers."""
        answers = [i for i, it in enumerate(messages) if it["role"] == "assistant"]
        if not answers:
            raise BadDialogue("has no message of the assistant, so no token is a target")
        if self.marked:
            return self.marked_tokens(messages, tools, last)
        whole = self.text(messages, tools)
        tokens = self.tokenizer.encode(whole, add_special_tokens=False)
        learn = [0] * len(tokens.ids)
        for i in answers[-1:] if last else answers:
            before = self.text(messages[:i], tools, True)
            ends = len(tokens.ids) if i + 1 == len(messages) else self.same_tokens(tokens.ids, self.text(messages[:i + 1], tools))
            content = messages[i].get("content")
            stripped = content.strip() if isinstance(content, str) else ""
            starts, plain = len(before), isinstance(content, str) and not messages[i].get("tool_calls")
            place = self.content_place(messages[:i + 1], tools) if plain else starts
            if before == self.text(messages[:i], tools):  # it writes no header of the answer for add_generation_prompt
                if not plain:
                    raise BadDialogue(f"message {i + 1} is not text alone, and the template has no add_generation_prompt that shows where an answer begins")
                starts = max(starts, place)
            said = whole.find(stripped, max(starts, place)) + len(stripped)
            known = plain and said >= starts + len(stripped)
            first = next((at for at, (begin, end) in enumerate(tokens.offsets) if end > max(begin, starts)), ends)
            if not whole.startswith(before) or first >= ends or tokens.offsets[ends - 1][1] < (said if stripped else 0):
                raise BadDialogue(f"the template writes message {i + 1} otherwise where others follow; --last learns only the last answer")
            special = [at for at in range(first, ends) if tokens.ids[at] in self.added]
            if known:  # the end of the turn is what follows the content
                special = [at for at in special if tokens.offsets[at][0] >= said][:1]
            elif special and whole[tokens.offsets[special[-1]][1]:tokens.offsets[ends - 1][1]].strip():
                special = []
            last_token = special[-1] + 1 if special else ends
            learn[first:last_token] = [1] * (last_token - first)
        return {"ids": tokens.ids, "learn": learn}


def dialogue_of(line):
    row = json.loads(line)
    if not isinstance(row, dict):
        raise BadDialogue("is not an object")
    if "messages" in row:
        messages = row["messages"]
    elif "conversations" in row:
        messages = [{"role": ROLES.get(it["from"], it["from"]), "content": it["value"]} for it in row["conversations"]]
    elif "instruction" in row and "output" in row:
        asked = row["instruction"] + ("\n\n" + row["input"] if row.get("input") else "")
        messages = [{"role": "system", "content": row["system"]}] if row.get("system") else []
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": row["output"]}]
    else:
        raise BadDialogue("has neither messages, nor conversations, nor instruction and output")
    if not isinstance(messages, list) or not all(isinstance(it, dict) and isinstance(it.get("role"), str) for it in messages):
        raise BadDialogue("has messages that are not a list of objects with a role")
    return messages, row.get("tools")


def pack(template, arguments, more):
    command = [arguments.trireme, "data", "pack-text", "-", "--chat-template", "rendered", "--tokenizer", str(template.path), "--out", arguments.out, *more]
    packer = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    skipped = 0
    for path in arguments.files:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    packer.stdin.write(json.dumps(template.encoded(*dialogue_of(line), arguments.last)) + "\n")
                except (BadDialogue, json.JSONDecodeError, KeyError, TypeError) as error:
                    problem = f"lacks {error}" if isinstance(error, KeyError) else str(error)
                    if not arguments.skip_bad:
                        packer.kill()
                        packer.wait()
                        print(f"{path}:{number}: {problem}; fix the line, or skip such lines with --skip-bad", file=sys.stderr)
                        sys.exit(3)  # as trireme for bad data
                    print(f"skipped: {path}:{number}: {problem}", file=sys.stderr)
                    skipped += 1
    packer.stdin.close()
    if packer.wait() != 0:
        sys.exit(packer.returncode)
    if skipped:
        print(f"bad lines skipped: {skipped}")


def cut(text, *marks):
    """The text before, between and after the marks."""
    if any(text.count(mark) != 1 for mark in marks):
        raise BadDialogue("it does not write a content once")
    return re.split("|".join(marks), text)


def pieces_of(template):
    """The text around each role's content, checked on random conversations; raises BadDialogue if it depends on more."""
    def says(role, content):
        return {"role": role, "content": content}

    user, answer, again = says("user", "Qq1"), says("assistant", "Aa2"), says("user", "Rr3")
    first, after_user = cut(template.text([user], answers=True), "Qq1")
    after_answer = cut(template.text([user, answer], answers=True), "Qq1", "Aa2")[2]
    _, to_answer, to_user, _ = cut(template.text([user, answer, again], answers=True), "Qq1", "Aa2", "Rr3")
    for size in range(min(len(after_user), len(after_answer)), -1, -1):
        generation, ends = after_user[len(after_user) - size:], [it[:len(it) - size] for it in (after_user, after_answer)]
        before_user = to_user[len(ends[1]):]
        if after_answer.endswith(generation) and to_answer.startswith(ends[0]) and to_user.startswith(ends[1]) and first.endswith(before_user):
            break
    else:
        raise BadDialogue("the first message differs from later ones")
    roles = {"user": {"before": before_user, "after": ends[0]}, "assistant": {"before": to_answer[len(ends[0]):], "after": ends[1]}}
    begin = first[:len(first) - len(before_user)]
    special = sorted((template.tokenizer.id_to_token(id) for id in template.added), key=len, reverse=True)
    pieces = {"begin": begin, "generation": generation, "end": next((it for it in special if after_answer.lstrip().startswith(it)), ""),
              "trims": template.text([says("user", " Qq1 ")], answers=True) == f"{first}Qq1{after_user}", "roles": roles}
    try:
        with_system, tail = template.text([says("system", "Ss4"), user], answers=True), f"{before_user}Qq1{after_user}"
        if with_system.endswith(tail):
            roles["system"] = dict(zip(("before", "after"), cut(with_system[:len(with_system) - len(tail)], "Ss4")))
    except BadDialogue:
        pass
    source = random.Random(7)
    for _ in range(200):
        messages = [says("system", "Be\nbrief. ")] if "system" in roles and source.random() < 0.5 else []
        text = "" if messages else begin
        for turn in range(source.randrange(1, 4)):
            messages += [says("user", f" {source.random()}\n<b>é"), says("assistant", f"{source.random()}\n\n x ")]
        messages.pop()
        for it in messages:
            text += roles[it["role"]]["before"] + (it["content"].strip() if pieces["trims"] else it["content"]) + roles[it["role"]]["after"]
        if text + generation != template.text(messages, answers=True):
            raise BadDialogue("the text around a message depends on other messages")
    return pieces


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, epilog="Other options are those of trireme data pack-text.")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--out", help="directory of the data set")
    parser.add_argument("--last", action="store_true", help="learn only the last answer of each conversation")
    parser.add_argument("--skip-bad", action="store_true", help="leave out lines that cannot be rendered, and name them")
    parser.add_argument("--date", help="YYYY-MM-DD, for templates that write the date")
    parser.add_argument("--pieces", help="write the template's pieces to this file")
    parser.add_argument("--trireme", default=str(pathlib.Path(__file__).resolve().parents[1] / "build/cpu/trireme"))
    arguments, more = parser.parse_known_intermixed_args()
    try:
        import datetime
        template = Template(arguments.model, datetime.date.fromisoformat(arguments.date) if arguments.date else None)
    except ImportError as error:
        sys.exit(f"pack_chats.py: the Python package {error.name} is missing; pip install jinja2 tokenizers")
    if arguments.pieces:
        try:
            pathlib.Path(arguments.pieces).write_text(json.dumps(pieces_of(template), indent=1) + "\n")
        except BadDialogue as error:
            sys.exit(f"{arguments.model}: {error}: generate --chat cannot apply this template; render prompts by it and give them to generate --prompts")
    if bool(arguments.files) != bool(arguments.out):
        parser.error("files need --out, and --out files")
    if arguments.files:
        pack(template, arguments, more)


if __name__ == "__main__":
    main()
