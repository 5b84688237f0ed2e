#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adapters of trireme in Hugging Face's peft, and of peft in trireme: equal log-likelihoods.

    tests/checks/check_peft.py [--trireme FILE]

For random small models of transformers (a Llama, a GPT-2) as bases: trains adapters with `trireme train`, writes them by
`trireme checkpoint export --adapter` and loads them by PeftModel; and fills adapters of peft, saves them and imports them by
`trireme checkpoint import --base`. Both must score random texts alike, to 1e-5 per token. About a minute. Needs: pip install
numpy safetensors transformers torch h5py peft. Exit 77 if one is missing.
"""
import json
import pathlib
import random
import sys
import tempfile

from exchange import log_likelihood, np, torch, transformers
from shared import Program, packages, pack_tokens, parser_of, sets

with packages("peft"):
    import peft

TOLERANCE = 1e-5  # per token
CONTEXT, VOCABULARY = 24, 256
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def llama(tied=False):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=CONTEXT, initializer_range=0.2, tie_word_embeddings=tied))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=CONTEXT, initializer_range=0.2))


class Check:
    def __init__(self, trireme, place):
        self.trireme, self.place = Program(trireme), pathlib.Path(place)
        self.draw, self.made = random.Random(1), 0
        pack_tokens(self.trireme, self.place, bytes(self.draw.randrange(VOCABULARY) for _ in range(4000)))

    def make_base(self, name, model):
        model.eval().save_pretrained(self.place / name)
        self.trireme("checkpoint", "import", self.place / name, "--out", self.place / f"{name}_run")

    def compare(self, label, run, model):
        texts = [[self.draw.randrange(VOCABULARY) for _ in range(CONTEXT)] for _ in range(4)]
        file = self.place / "texts.jsonl"
        file.write_text("".join(json.dumps({"context_ids": ids[:1], "continuation_ids": ids[1:]}) + "\n" for ids in texts))
        printed = self.trireme("eval", run, "--continuations", file, "--set", "precision=fp32")
        ours = [json.loads(line)["log_likelihood"] for line in printed.splitlines()]
        error = float(np.max([abs(a - log_likelihood(model.eval(), ids, 1)) / (CONTEXT - 1) for a, ids in zip(ours, texts)]))
        print(f"{label}: log-likelihoods off by {error:.1e} a token")
        if not error < TOLERANCE:
            sys.exit(f"{label}: trireme and peft score texts otherwise")

    def ours_to_theirs(self, name, model, targets, settings=()):
        self.made += 1
        tuned, out = self.place / f"tuned{self.made}", self.place / f"adapter{self.made}"
        (self.place / "tune.yaml").write_text(f"""
data: {{path: {self.place}/data/train}}
train: {{steps: 20, global_batch: 8, micro_batch: 4, initial_weights: {self.place}/{name}_run}}
lora: {{rank: 4, targets: [{targets}]}}
optimizer: {{learning_rate: 0.02}}
""")
        self.trireme("train", self.place / "tune.yaml", *sets([f"run.directory={tuned}", *settings]))
        self.trireme("checkpoint", "export", tuned, "--adapter", "--out", out)
        self.compare(f"{name}, {targets} of trireme in peft", tuned, peft.PeftModel.from_pretrained(model, out))

    def theirs_to_ours(self, name, model, **options):
        adapted = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **options))
        for key, value in adapted.named_parameters():
            if "lora_B" in key or "modules_to_save" in key:
                torch.nn.init.normal_(value, std=0.2)
        saved, run = self.place / f"{name}_theirs", self.place / f"{name}_imported"
        adapted.save_pretrained(saved)
        self.trireme("checkpoint", "import", saved, "--base", self.place / f"{name}_run", "--out", run, "--force")
        what = f"{name}, {options['target_modules']} of peft with {options.get('modules_to_save')}"
        self.compare(f"{what} in trireme", run, adapted)
        self.trireme("checkpoint", "export", run, "--adapter", "--out", self.place / "again", "--force")
        fresh = transformers.AutoModelForCausalLM.from_pretrained(self.place / name, dtype=torch.float32)
        self.compare(f"{what} back in peft", run, peft.PeftModel.from_pretrained(fresh, self.place / "again"))
        adapted.unload()


def main():
    arguments = parser_of(__doc__).parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as place:
        check = Check(arguments.trireme, place)
        for name, make in {"llama": llama, "tied": lambda: llama(True), "gpt2": gpt2}.items():
            check.make_base(name, make())

        def fresh(name):
            return transformers.AutoModelForCausalLM.from_pretrained(check.place / name, dtype=torch.float32)
        check.ours_to_theirs("llama", fresh("llama"), "qkv, output, expand, contract")
        check.ours_to_theirs("llama", fresh("llama"), "query, value", ["lora.rslora=true", "lora.dropout=0.1", "run.seed=2"])
        check.ours_to_theirs("llama", fresh("llama"), "query, key, value, output, gate, up, contract")
        check.ours_to_theirs("gpt2", fresh("gpt2"), "qkv, output")
        check.theirs_to_ours("llama", fresh("llama"), r=8, lora_alpha=16, target_modules=PROJECTIONS)
        check.theirs_to_ours("llama", fresh("llama"), r=3, lora_alpha=5, use_rslora=True, target_modules=["q_proj", "down_proj"])
        check.theirs_to_ours("llama", fresh("llama"), r=2, target_modules=["q_proj"], modules_to_save=["lm_head", "norm"])
        check.theirs_to_ours("tied", fresh("tied"), r=2, target_modules=["q_proj"], modules_to_save=["embed_tokens"], ensure_weight_tying=True)
        check.theirs_to_ours("gpt2", fresh("gpt2"), r=2, target_modules=["c_attn"], modules_to_save=["ln_f"], fan_in_fan_out=True)
        check.ours_to_theirs("tied", fresh("tied"), "query, value", ["lora.modules_to_save=[embedding.token.weight]"])
        check.theirs_to_ours("gpt2", fresh("gpt2"), r=4, target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True)


main()
