# SPDX-License-Identifier: Apache-2.0
"""Models of transformers in random small sizes, one function per kind, with a description.

Not to be run: see parity_huggingface.py.
"""
import torch
import transformers

KINDS = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma3": "Gemma3", "mixtral": "Mixtral", "qwen3_moe": "Qwen3Moe",
         "dots1": "Dots1", "gpt_oss": "GptOss", "phi3": "Phi3", "smollm3": "SmolLM3", "olmo2": "Olmo2"}
ROPES = ["default", "linear", "llama3", "yarn"]
GLOBAL, LOCAL = "full_attention", "sliding_attention"
CONTEXTS, GROUPS = [17, 40, 101], [1, 2, 4]  # tokens of a sequence; heads that share keys
GPT2_ACTIVATIONS = ["gelu_new", "gelu", "silu", "gelu_pytorch_tanh"]


def positions_of(config):
    """Tokens of a sequence; RoBERTa's count from behind its padding token's."""
    return config.max_position_embeddings - (config.pad_token_id + 1 if config.model_type == "roberta" else 0)


def rope(draw, kind, context):
    settings = {"rope_type": kind, "rope_theta": draw.choice([500.0, 10000.0, 1e6])}
    if kind != "default":
        settings["factor"] = draw.choice([1.5, 4.0, 8.0])
    if kind in ("llama3", "yarn"):
        settings["original_max_position_embeddings"] = draw.choice([8, 32, context])
    if kind == "llama3":
        settings |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    return settings


def stirred(draw, kind, config):
    """A model in fp32 with norms and biases changed from their initial values."""
    torch.manual_seed(draw.randrange(1 << 30))
    model = getattr(transformers, kind)(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1 or name.endswith(("_token", "position_embeddings", "_bias")):
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def experts_of(draw, kind, layers):
    """The settings of a mixture of experts; routers are drawn wide, so that rounding changes few choices."""
    experts, slots = draw.choice([(4, 2), (8, 3), (6, 1)])
    settings = {"num_experts_per_tok": slots}
    if kind in ("Mixtral", "GptOss"):
        return settings | {"num_local_experts": experts}
    settings |= {"moe_intermediate_size": draw.choice([9, 24, 40]), "norm_topk_prob": draw.random() < 0.5}
    if kind == "Qwen3Moe":
        return settings | {"num_experts": experts, "decoder_sparse_step": draw.choice([1, min(2, layers)]),
                           "mlp_only_layers": draw.choice([[], [0]] if layers > 2 else [[]])}
    groups, kept = draw.choice([(1, 1), (2, 2)])
    return settings | {"n_routed_experts": experts, "n_shared_experts": draw.choice([1, 2]), "n_group": groups, "topk_group": kept,
                       "first_k_dense_replace": draw.choice([0, layers - 1]), "routed_scaling_factor": draw.choice([1.0, 2.5])}


def balanced(family, index):
    """Whether the model trains with a balance loss, which transformers has over all layers and sequences: one of each."""
    return family in ("mixtral", "qwen3_moe") and index % 3 == 0


def draw_llama(draw, family, index):
    kind = KINDS[family]
    key_heads, group = draw.choice([1, 2, 3]), draw.choice(GROUPS)
    context = draw.choice(CONTEXTS)
    sizes = {"num_hidden_layers": draw.choice([1, 2, 3]), "num_key_value_heads": key_heads,
             "num_attention_heads": key_heads * group, "head_dim": draw.choice([6, 8, 18, 32]),
             "hidden_size": draw.choice([24, 45, 64]), "intermediate_size": draw.choice([33, 70, 128]),
             "max_position_embeddings": context, "vocab_size": draw.choice([256, 259, 300])}
    if balanced(family, index):
        sizes["num_hidden_layers"] = 1
    more = {"tie_word_embeddings": draw.random() < 0.5, "rms_norm_eps": draw.choice([1e-5, 1e-6]),
            "rope_parameters": rope(draw, ROPES[index % 4], context), "initializer_range": 0.15, "attn_implementation": "eager",
            "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    if kind in ("Llama", "SmolLM3", "Olmo2"):
        more["attention_bias"] = draw.random() < 0.5
    if kind in ("Phi3", "Olmo2"):  # rope: of short contexts; heads: of the hidden size
        more["rope_parameters"] = rope(draw, "default", context) if kind == "Phi3" else more["rope_parameters"]
        sizes["hidden_size"] = key_heads * group * sizes["head_dim"]
    if kind == "SmolLM3":
        every = draw.choice([2, 3, 4])
        more["no_rope_layers"] = [int((i + 1) % every != 0) for i in range(sizes["num_hidden_layers"])]
    if kind in ("Llama", "Gemma3", "SmolLM3"):  # whose configs refuse what does not divide, with a head_dim too
        sizes["hidden_size"] = key_heads * group * draw.choice([5, 9, 16])
    window = draw.choice([None, 5, 16])
    if kind == "Gemma3":
        window, every = window or 9, draw.choice([1, 2, 3, 6])
        more |= {"tie_word_embeddings": True, "sliding_window": window, "query_pre_attn_scalar": draw.choice([sizes["head_dim"], 7]),
                 "layer_types": [GLOBAL if (i + 1) % every == 0 else LOCAL for i in range(sizes["num_hidden_layers"])],
                 "rope_parameters": {GLOBAL: rope(draw, ROPES[index % 2], context), LOCAL: rope(draw, "default", context)}}
    elif kind == "GptOss":
        window, every = window or 9, draw.choice([1, 2, 3])
        stretched = rope(draw, ["yarn", "default"][index % 2], context) | ({"truncate": False} if index % 2 == 0 else {})
        more |= {"tie_word_embeddings": False, "sliding_window": window, "rope_parameters": stretched,
                 "layer_types": [GLOBAL if (i + 1) % every == 0 else LOCAL for i in range(sizes["num_hidden_layers"])]}
    elif kind in ("Mistral", "Mixtral", "Phi3"):
        more["sliding_window"] = window
    elif kind == "Dots1":
        more |= {"sliding_window": window, "max_window_layers": 0}
    elif kind.startswith("Qwen") and window is not None:
        more |= {"use_sliding_window": True, "sliding_window": window, "max_window_layers": 0}
    else:
        window = None
    if family in ("mixtral", "qwen3_moe", "dots1", "gpt_oss"):
        more |= experts_of(draw, kind, sizes["num_hidden_layers"]) | {"experts_implementation": "eager"}
    config = getattr(transformers, kind + ("TextConfig" if kind == "Gemma3" else "Config"))(**sizes, **more)
    model = stirred(draw, kind + "ForCausalLM", config)
    settings = more["rope_parameters"].get(GLOBAL, more["rope_parameters"])
    text = (f"{kind}: {sizes['num_hidden_layers']} layers of {sizes['hidden_size']}, {key_heads * group} heads of "
            f"{sizes['head_dim']} on {key_heads}, MLP {sizes['intermediate_size']}, context {context}, rope "
            f"{settings['rope_type']}, window {window}, {'tied' if more['tie_word_embeddings'] else 'untied'}")
    return model, text


def draw_gpt2(draw, _family, index):
    heads = draw.choice([1, 3, 4])
    hidden, layers, context = heads * draw.choice([5, 8, 16]), draw.choice([1, 2, 3]), draw.choice(CONTEXTS)
    act = GPT2_ACTIVATIONS[index % len(GPT2_ACTIVATIONS)]
    config = transformers.GPT2Config(n_layer=layers, n_head=heads, n_embd=hidden, n_positions=context, activation_function=act,
                                     vocab_size=draw.choice([256, 259, 300]), initializer_range=0.15, resid_pdrop=0.0,
                                     embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager")
    return stirred(draw, "GPT2LMHeadModel", config), f"GPT2: {layers} layers of {hidden}, {heads} heads, {act}, context {context}"


def draw_vit(draw, family, _index):
    heads = draw.choice([1, 3, 4])
    hidden, layers, patch = heads * draw.choice([5, 8, 16]), draw.choice([1, 2, 3]), draw.choice([3, 4, 7])
    size, wide, act = patch * draw.choice([2, 3, 5]), draw.choice([33, 70, 128]), draw.choice(["gelu", "gelu", "gelu_new"])
    name = "DeiT" if family == "deit" else "ViT"
    config = getattr(transformers, name + "Config")(num_hidden_layers=layers, num_attention_heads=heads, hidden_size=hidden,
                                    intermediate_size=wide, image_size=size, patch_size=patch, num_channels=1,
                                    num_labels=draw.choice([2, 5, 11]), hidden_act=act, initializer_range=0.15,
                                    layer_norm_eps=draw.choice([1e-12, 1e-6, 1e-5]), attn_implementation="eager")
    return stirred(draw, name + "ForImageClassification", config), (
        f"{name}: {layers} layers of {hidden}, {heads} heads, MLP {wide}, {size} pixels in patches of {patch}, {act}")


def draw_bert(draw, family, _index):
    heads = draw.choice([1, 3, 4])
    hidden, layers, context = heads * draw.choice([5, 8, 16]), draw.choice([1, 2, 3]), draw.choice(CONTEXTS)
    wide, act = draw.choice([33, 70, 128]), draw.choice(["gelu", "gelu", "gelu_new"])
    if family == "roberta":
        act = "gelu"
    vocabulary = 300 if family == "roberta" else draw.choice([257, 300])
    # transformers' embedding gives a padding token no gradient, nor RoBERTa a position: these texts have none.
    roberta = family == "roberta"
    config = getattr(transformers, "RobertaConfig" if roberta else "BertConfig")(num_hidden_layers=layers, num_attention_heads=heads, hidden_size=hidden,
                                     intermediate_size=wide, max_position_embeddings=context + (300 if roberta else 0), vocab_size=vocabulary,
                                     mask_token_id=256, pad_token_id=299 if roberta else None, hidden_act=act, hidden_dropout_prob=0.0,
                                     attention_probs_dropout_prob=0.0, initializer_range=0.15,
                                     layer_norm_eps=draw.choice([1e-12, 1e-6, 1e-5]), attn_implementation="eager")
    return stirred(draw, "RobertaForMaskedLM" if roberta else "BertForMaskedLM", config), (
        f"{'RoBERTa' if roberta else 'BERT'}: {layers} layers of {hidden}, {heads} heads, MLP {wide}, context {context}, {act}")


def draw_resnet(draw, _family, index):
    # Small: with more values some lie so close to a ReLU's zero that rounding decides them, in 1 of 20 models even
    # here. Then the steps diverge, between trireme and PyTorch or between PyTorch's fp32 and fp64.
    kind, width = ["basic", "bottleneck"][index % 2], draw.choice([3, 5, 8])
    depths, size = draw.choice([[1, 1], [2, 1, 1], [1, 2]]), draw.choice([21, 24])
    config = transformers.ResNetConfig(num_channels=1, embedding_size=width, depths=depths, layer_type=kind, num_labels=draw.choice([2, 5]),
                                       hidden_sizes=[(width << s) * (4 if kind == "bottleneck" else 1) for s in range(len(depths))],
                                       image_size=size)
    model = stirred(draw, "ResNetForImageClassification", config).train()
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.add_(torch.randn_like(buffer) * 0.2)
            elif name.endswith("running_var"):
                buffer.mul_(torch.rand_like(buffer) + 0.5)
            else:
                buffer.fill_(7)
    return model, f"ResNet: {depths} {kind} blocks of {width} channels, {size} pixels"


HEADS = {"single_label_classification": "ForSequenceClassification", "regression": "ForSequenceClassification",
         "multi_label_classification": "ForSequenceClassification", "token_classification": "ForTokenClassification"}


def draw_heads(draw, family, index):
    """The body of another family under a head for samples or tokens."""
    body, text = DRAWN_BY[family.removesuffix("_heads")](draw, family.removesuffix("_heads"), index)
    config, problem = body.config, list(HEADS)[index % len(HEADS)]
    config.num_labels, config.pad_token_id, config.classifier_dropout = draw.choice([2, 3, 5]), 0, 0.0
    config.architectures, config.mask_token_id = None, None
    config.problem_type = None if problem == "token_classification" else problem
    model = stirred(draw, type(body).__name__.replace("ForMaskedLM", "").replace("ForCausalLM", "") + HEADS[problem], config)
    return model, f"{text}, {problem} with {config.num_labels} outputs"


DRAWN_BY = {"gpt2": draw_gpt2, "bert": draw_bert, "roberta": draw_bert, "deit": draw_vit, "vit": draw_vit, "resnet": draw_resnet} | dict.fromkeys(KINDS, draw_llama)
DRAWN_BY |= dict.fromkeys(["bert_heads", "llama_heads"], draw_heads)  # of padding in windows transformers makes NaN
