# SPDX-License-Identifier: Apache-2.0
"""Low-rank adapters, as lora.rank, on a model of transformers. Imported by parity_huggingface.py; needs torch."""
import torch


class Adapters:
    """A model with alpha / rank B A added to its weights; A is shared by weights that are one matrix in trireme."""
    PARTS = {"attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], "attention.output": ["self_attn.o_proj"],
             "mlp.expand": ["mlp.gate_proj", "mlp.up_proj"], "mlp.contract": ["mlp.down_proj"]}
    PHI3_PARTS = PARTS | {"attention.qkv": ["self_attn.qkv_proj"], "mlp.expand": ["mlp.gate_up_proj"]}
    GPT2_PARTS = {"attention.qkv": ["attn.c_attn"], "attention.output": ["attn.c_proj"], "mlp.expand": ["mlp.c_fc"], "mlp.contract": ["mlp.c_proj"]}

    def __init__(self, model, factors, scale):
        self.model, self.scale = model, scale
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.factors = {name: value.requires_grad_() for name, value in factors.items()}

    def __call__(self, inputs):
        gpt2 = self.model.config.model_type == "gpt2"
        parts = {"gpt2": self.GPT2_PARTS, "phi3": self.PHI3_PARTS}.get(self.model.config.model_type, self.PARTS)
        weights = dict(self.weights)
        for name, a in self.factors.items():
            if not name.endswith(".lora_a"):
                continue
            layer = name.removesuffix(".lora_a")
            _, index, role = layer.split(".", 2)
            added, row = self.scale * self.factors[layer + ".lora_b"] @ a, 0
            for part in parts[role]:
                theirs = f"transformer.h.{index}.{part}.weight" if gpt2 else f"model.layers.{index}.{part}.weight"
                rows = weights[theirs].shape[1 if gpt2 else 0]
                own = added[row:row + rows]
                weights[theirs] = weights[theirs] + (own.T if gpt2 else own)
                row += rows
        return torch.func.functional_call(self.model, weights, (inputs,))
