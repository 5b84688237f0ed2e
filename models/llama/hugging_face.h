// SPDX-License-Identifier: Apache-2.0
// Our Llama in the names and the form of Hugging Face's LlamaForCausalLM, MistralForCausalLM,
// Qwen2ForCausalLM and Qwen3ForCausalLM, both ways: they differ in what config.json says alone.
#pragma once

#include "models/transformer/exchange.h"

namespace trireme::hugging_face {

[[nodiscard]] const Exchange& llama_exchange();

}  // namespace trireme::hugging_face
