// SPDX-License-Identifier: Apache-2.0
// gpt-oss in Hugging Face's form.
#include "models/gpt_oss/gpt_oss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/transformer/exchange.h"
#include "models/transformer/hf_keys.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

using Json = nlohmann::json;
using hugging_face::gpt_oss_exchange;

// The keys of the published 20B model that the family reads.
const char* const published = R"({
  "attention_bias": true, "attention_dropout": 0.0, "eos_token_id": 200002, "head_dim": 64,
  "hidden_act": "silu", "hidden_size": 2880, "initial_context_length": 4096,
  "experts_per_token": 4, "initializer_range": 0.02, "intermediate_size": 2880,
  "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
  "max_position_embeddings": 131072, "model_type": "gpt_oss", "num_attention_heads": 64,
  "num_experts_per_tok": 4, "num_hidden_layers": 4, "num_key_value_heads": 8,
  "num_local_experts": 32, "output_router_logits": false, "pad_token_id": 199999,
  "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"],
                          "quant_method": "mxfp4"}, "rms_norm_eps": 1e-05,
  "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
                   "original_max_position_embeddings": 4096, "rope_type": "yarn",
                   "truncate": false},
  "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
  "tie_word_embeddings": false, "use_cache": true, "vocab_size": 201088})";

GptOssOptions read(const Json& object) {
  const HfKeys keys(object, "config.json");
  ModelConfig config;
  static_cast<void>(keys.text("model_type"));
  gpt_oss_exchange().read(keys, "gpt_oss", config);
  keys.expect_nothing_else();
  return config.as<GptOssOptions>();
}

TEST(GptOssExchange, ReadsThePublishedConfig) {
  const GptOssOptions model = read(parse_json(published));

  EXPECT_EQ(model, (GptOssOptions{.layers = 4,
                                  .hidden = 2880,
                                  .heads = 64,
                                  .kv_heads = 8,
                                  .head_size = 64,
                                  .intermediate = 2880,
                                  .context = 131072,
                                  .vocabulary = 201088,
                                  .norm_epsilon = 1e-5,
                                  .window = 128,
                                  .global_every = 2,
                                  .rope_theta = 150000,
                                  .rope_factor = 32,
                                  .rope_original_context = 4096,
                                  .experts = 32,
                                  .experts_per_token = 4}));
}

TEST(GptOssExchange, ReadsWhatItWrites) {
  for (const bool stretched : {false, true}) {
    ModelConfig config;
    config.family = gpt_oss_name;
    auto& model = config.as<GptOssOptions>();
    model = {.layers = 3, .heads = 8, .kv_heads = 2, .head_size = 32, .intermediate = 70};
    model.window = 9;
    model.global_every = 3;
    model.experts = 6;
    model.experts_per_token = 3;
    if (stretched) model.rope_factor = 4, model.rope_original_context = 64;

    EXPECT_EQ(read(parse_json(gpt_oss_exchange().config_json(config))), model);
  }
}

TEST(GptOssExchange, RefusesOtherFunctionsByName) {
  const auto refused = [](const std::string& key, const Json& value, const std::string& named) {
    Json object = parse_json(published);
    object[Json::json_pointer(key)] = value;
    try {
      static_cast<void>(read(object));
      FAIL() << key << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::config);
      EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
    }
  };

  refused("/swiglu_limit", 6.0, "swiglu_limit is 6.0");
  refused("/swiglu_alpha", 1.0, "swiglu_alpha is 1.0");
  refused("/experts_per_token", 2, "experts_per_token is 2");
  refused("/attention_bias", false, "attention_bias is false");
  refused("/tie_word_embeddings", true, "tie_word_embeddings is true");
  refused("/hidden_act", "gelu", "hidden_act");
  refused("/quantization_config/quant_method", "gptq", "quantization_config is {");
  refused("/layer_types/0", "full_attention", "layer_types");
  refused("/rope_scaling/truncate", true, "rope_scaling.truncate is true");
  refused("/rope_scaling/beta_fast", 16.0, "rope_scaling.beta_fast is 16.0");
  refused("/rope_scaling/rope_type", "linear", "rope_scaling.rope_type");
  refused("/rope_scaling/attention_factor", 1.0, "rope_scaling.attention_factor is 1.0");
  Json object = parse_json(published);
  object["rope_scaling"] = nullptr;
  EXPECT_EQ(read(object).rope_factor, 32);
  refused("/rope_parameters", Json::object(), "rope_scaling is {");
}

TEST(GptOssExchange, NamesTheTensorsOfAttention) {
  ModelConfig config;
  config.family = gpt_oss_name;
  config.as<GptOssOptions>() = {
      .layers = 1, .hidden = 32, .heads = 8, .kv_heads = 2, .head_size = 6};
  const auto names = gpt_oss_exchange().names(config);
  const auto shape_of = [&](std::string_view ours, std::string_view theirs) -> Shape {
    for (const auto& pair : names) {
      const auto part = std::ranges::find(pair.hf, theirs, &hugging_face::HfTensor::name);
      if (pair.ours == ours && part != pair.hf.end()) return part->shape;
    }
    return {};
  };

  const std::string theirs = "model.layers.0.self_attn.";
  EXPECT_EQ(shape_of("blocks.0.attention.sinks", theirs + "sinks"), (Shape{8}));
  EXPECT_EQ(shape_of("blocks.0.attention.output.bias", theirs + "o_proj.bias"), (Shape{32}));
  EXPECT_EQ(shape_of("blocks.0.attention.qkv.bias", theirs + "k_proj.bias"), (Shape{12}));
  EXPECT_EQ(shape_of("head.weight", "lm_head.weight"), (Shape{256, 32}));
}

}  // namespace
}  // namespace trireme
