#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes keys of config.json at random and compares trireme with transformers.

    tests/checks/check_config_keys.py [--cases 120] [--seed 1] [--trireme FILE]

For each case transformers creates a small random model, and one to three keys of its config.json are changed, removed
or added. Cases that transformers cannot load are skipped. Otherwise `trireme checkpoint import` must refuse the file
and name one of the changed keys, or give the same logits as transformers to 1e-4. About 0.25 s per case. Needs: pip
install numpy safetensors transformers torch h5py. Exit 77 if one is missing.
"""
import collections
import copy
import json
import pathlib
import random
import sys
import tempfile

from exchange import class_of, torch, transformers
from safetensors.torch import save_file
from shared import parser_of, run

CONTEXT = 16
REMOVED = object()
YARN = {"rope_type": "yarn", "factor": 4.0}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
ROTATIONS = [
    None, {}, {"rope_type": "default"}, {"type": "linear", "factor": 3.0}, {"type": "linear"}, {"rope_type": "dynamic", "factor": 2.0},
    YARN, {**YARN, "factor": None, "original_max_position_embeddings": 4}, {**YARN, "original_max_position_embeddings": 4},
    {**YARN, "beta_fast": 4.0, "beta_slow": 0.5}, {**YARN, "mscale": 2.0}, {**YARN, "mscale": 2.0, "mscale_all_dim": 0.5},
    {**YARN, "attention_factor": 1.5}, {**YARN, "truncate": False}, {"rope_type": "yarn"}, LLAMA3,
    {**LLAMA3, "original_max_position_embeddings": 8}, {"rope_type": "llama3", "factor": 2.0},
    {"rope_type": "default", "rope_theta": 300.0}, {"rope_type": "default", "partial_rotary_factor": 0.5},
]
# Keys of all models.
ANY = {"use_cache": [False], "initializer_range": [0.5], "eos_token_id": [[1, 2]], "output_attentions": [True], "top_p": [0.5],
       "score_scale": [2.0], "is_decoder": [False, True], "add_cross_attention": [False], "chunk_size_feed_forward": [1],
       "tie_word_embeddings": [True, False, REMOVED], "problem_type": ["single_label_classification"]}
TOKENS = {"pad_token_id": [3]}
LLAMA = ANY | TOKENS | {
    "rope_scaling": ROTATIONS, "rope_parameters": [REMOVED, *ROTATIONS], "rope_theta": [300.0, REMOVED],
    "original_max_position_embeddings": [8, None], "partial_rotary_factor": [1.0, 0.5], "rms_norm_eps": [0.05, REMOVED],
    "hidden_act": ["gelu", "silu", REMOVED], "attention_dropout": [0.5], "attention_bias": [True, False], "mlp_bias": [True, False],
    "head_dim": [None, REMOVED], "num_key_value_heads": [None, REMOVED], "pretraining_tp": [2],
    "sliding_window": [4, 1, None, REMOVED], "use_sliding_window": [True, False], "max_window_layers": [0, 1, 2, 28, REMOVED],
    "layer_types": [["full_attention"] * 2, ["sliding_attention"] * 2, ["full_attention", "sliding_attention"], None, REMOVED]}
LOCAL, GLOBAL = "sliding_attention", "full_attention"
GEMMA = ANY | TOKENS | {
    "rope_parameters": [REMOVED, {GLOBAL: {"rope_type": "linear", "factor": 3.0, "rope_theta": 1e5}}, {GLOBAL: LLAMA3},
                        {LOCAL: {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}, {LOCAL: {"rope_type": "default", "rope_theta": 99.0}},
                        {"rope_type": "linear", "factor": 2.0}],
    "rope_scaling": [None, {"rope_type": "linear", "factor": 2.0}, {"type": "linear"}, YARN], "rope_theta": [300.0], "rope_local_base_freq": [70.0],
    "rms_norm_eps": [0.05, REMOVED], "hidden_activation": ["gelu", "silu", REMOVED], "hidden_act": ["silu"], "attention_bias": [True, False],
    "head_dim": [16, REMOVED], "num_key_value_heads": [4, REMOVED], "query_pre_attn_scalar": [5, REMOVED], "cache_implementation": ["hybrid"],
    "sliding_window": [4, 1, None, REMOVED], "sliding_window_pattern": [1, 2, 5], "final_logit_softcapping": [30.0, None],
    "attn_logit_softcapping": [50.0, None], "use_bidirectional_attention": [True, False],
    "layer_types": [[GLOBAL] * 2, [LOCAL] * 2, [LOCAL, GLOBAL], [GLOBAL, LOCAL], None, REMOVED]}
GPT_OSS = ANY | TOKENS | {
    "rope_scaling": ROTATIONS, "rope_parameters": [REMOVED, *ROTATIONS], "rope_theta": [300.0, REMOVED], "rms_norm_eps": [0.05, REMOVED],
    "hidden_act": ["silu", REMOVED], "attention_bias": [True, False], "head_dim": [None, REMOVED], "num_key_value_heads": [None, REMOVED],
    "num_local_experts": [8, REMOVED], "num_experts_per_tok": [1, 3, REMOVED], "experts_per_token": [2, 3], "swiglu_alpha": [1.0, 1.702],
    "swiglu_limit": [7.0, 0.5, REMOVED], "router_aux_loss_coef": [0.5], "output_router_logits": [False], "initial_context_length": [8],
    "sliding_window": [4, 1, None, REMOVED], "layer_types": [[GLOBAL] * 2, [LOCAL] * 2, [LOCAL, GLOBAL], [GLOBAL, LOCAL], None, REMOVED]}
GPT2 = ANY | TOKENS | {
    "activation_function": ["gelu", "relu", "gelu_new"], "layer_norm_epsilon": [0.05, REMOVED], "scale_attn_weights": [False, True],
    "scale_attn_by_inverse_layer_idx": [True, False], "reorder_and_upcast_attn": [True], "n_inner": [None, 16, 128], "n_ctx": [8],
    "resid_pdrop": [0.5, REMOVED], "embd_pdrop": [0.3], "attn_pdrop": [0.3], "summary_type": ["mean"]}
BERT = ANY | TOKENS | {
    "hidden_act": ["gelu_new", "relu", "gelu", REMOVED], "layer_norm_eps": [0.05, REMOVED], "hidden_dropout_prob": [0.5, REMOVED],
    "position_embedding_type": ["absolute", "relative_key"], "attention_probs_dropout_prob": [0.4], "classifier_dropout": [0.1]}
VIT = ANY | {
    "hidden_act": ["gelu_new", "relu", "gelu", REMOVED], "layer_norm_eps": [0.05, REMOVED], "hidden_dropout_prob": [0.5],
    "qkv_bias": [True, False], "encoder_stride": [4], "pooler_act": ["relu"], "pooler_output_size": [8]}
RESNET = ANY | {
    "hidden_act": ["gelu", "relu", REMOVED], "downsample_in_first_stage": [True, False], "downsample_in_bottleneck": [True, False],
    "layer_type": ["basic", "bottleneck", REMOVED], "out_features": [["stage1"]], "out_indices": [[1]]}

TEXT = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
        "max_position_embeddings": CONTEXT}
KINDS = {
    "llama": (TEXT | {"num_key_value_heads": 2, "head_dim": 8}, LLAMA),
    "mistral": (TEXT | {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 5}, LLAMA),
    "qwen2": (TEXT | {"num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}, LLAMA),
    "qwen3": (TEXT | {"num_key_value_heads": 2, "head_dim": 8, "use_sliding_window": True, "sliding_window": 5,
                      "max_window_layers": 0}, LLAMA),
    "gemma3_text": (TEXT | {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 8,
                            "layer_types": [LOCAL, GLOBAL]}, GEMMA),
    "gpt_oss": (TEXT | {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 5, "num_local_experts": 4, "num_experts_per_tok": 2,
                        "layer_types": [LOCAL, GLOBAL]}, GPT_OSS),
    "gpt2": ({"vocab_size": 40, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT}, GPT2),
    "bert": (TEXT, BERT),
    "vit": ({"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 16,
             "patch_size": 8, "num_labels": 3}, VIT),
    "resnet": ({"embedding_size": 8, "hidden_sizes": [32, 64], "depths": [1, 1], "num_labels": 3}, RESNET),
}


BERT_LIKE = BERT | {"pad_token_id": [REMOVED]}
EXPERTS = LLAMA | {"num_local_experts": [REMOVED], "num_experts_per_tok": [1, REMOVED], "moe_intermediate_size": [48], "output_router_logits": [True],
                   "norm_topk_prob": [True, False, REMOVED], "decoder_sparse_step": [2, REMOVED], "mlp_only_layers": [[1], REMOVED]}
KINDS |= {
    "roberta": (TEXT | {"max_position_embeddings": CONTEXT + 2}, BERT_LIKE),
    "mixtral": (TEXT | {"num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 8}, EXPERTS),
    "qwen3_moe": (TEXT | {"num_key_value_heads": 2, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                          "use_sliding_window": True, "sliding_window": 5}, EXPERTS),
    "phi3": (TEXT | {"num_key_value_heads": 2, "pad_token_id": 3}, LLAMA | {"embd_pdrop": [0.1], "resid_pdrop": [0.1]}),
    "smollm3": (TEXT | {"num_attention_heads": 8, "num_key_value_heads": 4, "pad_token_id": 3}, LLAMA | {"no_rope_layer_interval": [2, REMOVED]}),
    "olmo2": (TEXT | {"num_key_value_heads": 2}, LLAMA),
}


def with_default(kind, draw):
    """Sizes of which one is that of the configuration class, and its key; without those that make large models."""
    sizes, _ = KINDS[kind]
    own = type(transformers.AutoConfig.for_model(kind))
    known = {key: getattr(own, key, None) for key in sizes}
    small = {"max_position_embeddings": 200000, "n_positions": 2000, "hidden_size": 800, "n_embd": 800, "num_hidden_layers": 12, "n_layer": 12, "intermediate_size": 25000, "vocab_size": 300000}
    able = [key for key, value in sorted(known.items()) if isinstance(value, int) and value < small.get(key, 65) and key != "num_labels"]
    if not able:
        return sizes, None
    key = draw.choice(able)
    return sizes | {key: known[key]}, key


def inputs_of(kind, draw):
    if kind in ("vit", "resnet"):
        side = 16 if kind == "vit" else 224
        return {"pixel_values": torch.randn(1, 3, side, side)}
    # Without 1, RoBERTa's padding: inside a text it shifts the positions behind it, which Trireme refuses in data.
    return {"input_ids": torch.tensor([[draw.randrange(2, 40) for _ in range(CONTEXT)] for _ in range(2)])}


def save(kind, place, sizes):
    """A model in which every parameter affects the output."""
    config = transformers.AutoConfig.for_model(kind, **sizes)
    model = class_of(config).from_config(config)
    with torch.no_grad():
        for values in model.parameters():
            values.add_(torch.randn_like(values) * 0.3)
    model.save_pretrained(place)


def logits_of(kind, place, inputs):
    """None if transformers cannot load the directory."""
    try:
        kind_of_model = class_of(transformers.AutoConfig.for_model(kind))
        model, info = kind_of_model.from_pretrained(place, output_loading_info=True, attn_implementation="eager")
        if any(info[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys")):
            return None
        with torch.no_grad():
            return model.eval()(**inputs).logits
    except Exception:  # whatever their checks raise
        return None


def change(config, pool, draw):
    changed = draw.sample(sorted(pool), draw.choice([1, 1, 2, 3]))
    for key in changed:
        value = draw.choice(pool[key])
        if value is REMOVED:
            config.pop(key, None)
        else:
            config[key] = copy.deepcopy(value)
    return changed


def named(message, changed):
    # Keys inside rope_scaling are named by it; a window is spread over four keys.
    together = ["sliding_window", "use_sliding_window", "max_window_layers", "layer_types"]
    rotation = ["rope_scaling", "rope_parameters"]
    keys = set(changed)
    for group in (together, rotation):
        if keys & set(group):
            keys |= set(group)
    return any(key in message for key in keys)


def run_case(trireme, kind, place, draw):
    """The result: refused, equal, or skipped; ends the check on an error."""
    sizes, missing = with_default(kind, draw) if draw.random() < 0.3 else (KINDS[kind][0], None)
    try:
        save(kind, place, sizes)
    except ValueError:  # a default that does not fit the other sizes
        return "left out"
    config = json.loads((place / "config.json").read_text())
    changed = [missing] if missing else change(config, KINDS[kind][1], draw)
    if missing:
        del config[missing if missing in config else "num_local_experts"]
    (place / "config.json").write_text(json.dumps(config, indent=2))
    inputs = inputs_of(kind, draw)
    logits = logits_of(kind, place, inputs)
    if logits is None:
        return "left out"
    save_file({**inputs, "logits": logits.float().contiguous()}, place / "trireme_expectations.safetensors")
    done = run([trireme, "checkpoint", "import", place, "--out", place / "run"], codes=None)
    shown = {key: config.get(key, "missing") for key in changed}
    if done.returncode == 0 and "logits as in" in done.stdout:
        return "equal"
    if done.returncode == 2 and named(done.stderr, changed):
        return "refused"
    # A default that does not fit the sizes.
    if done.returncode == 2 and missing and ("does not divide" in done.stderr or "rotary positions rotate pairs" in done.stderr):
        return "left out"
    if done.returncode == 4 and "tie_word_embeddings" in changed and "the head is tied to the tokens" in done.stderr:
        return "refused"
    if done.returncode == 4 and "but the model reads" in done.stderr:  # texts shorter than a default context
        return "left out"
    sys.exit(f"{kind} with {shown}: import ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--cases", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity(50)
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    kinds = sorted(KINDS)
    ends = collections.Counter()
    for case in range(arguments.cases):
        seed = arguments.seed * 1_000_003 + case
        torch.manual_seed(seed)
        kind = kinds[case % len(kinds)]
        with tempfile.TemporaryDirectory() as place:
            ends[run_case(arguments.trireme, kind, pathlib.Path(place), random.Random(seed))] += 1
    print(f"{arguments.cases} cases: " + ", ".join(f"{count} {end}" for end, count in sorted(ends.items())))
    if not (ends["equal"] and ends["refused"]):
        sys.exit("nothing was compared")


main()
