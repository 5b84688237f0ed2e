// SPDX-License-Identifier: Apache-2.0
// Relatives of Llama, BERT and ViT in Hugging Face's form: their kinds, their tensors, and back.
#include <array>

#include "launch/exchange/hf_config.h"
#include "models/llama/llama.h"
#include "runtime/checkpoint/files/safetensors.h"
#include "tests/checkpoint/exchange_fixture.h"

namespace trireme {
namespace {

using test::expect_error;
using test::run;

struct Relative {
  std::string name, section;             // of the config; beside layers, hidden, heads
  std::vector<std::string> in_config;    // parts of their config.json
  std::map<std::string, Shape> tensors;  // some of theirs
};

const std::vector<Relative> relatives{
    {"LlamaWithBiases",
     "context: 6, vocabulary: 50, family: llama, kv_heads: 1, attention_bias: true",
     {"\"llama\"", "\"attention_bias\": true"},
     {{"model.layers.1.self_attn.k_proj.bias", {4}},
      {"model.layers.1.self_attn.o_proj.bias", {8}}}},
    {"SmolLm3",
     "context: 6, vocabulary: 50, family: llama, kv_heads: 1, unrotated_every: 2, tied_head: true",
     {"\"smollm3\"", "\"no_rope_layers\": [\n    1,\n    0\n  ]", "SmolLM3ForCausalLM"},
     {{"model.layers.1.self_attn.q_proj.weight", {8, 8}}}},
    {"Olmo2",
     "context: 6, vocabulary: 50, family: llama, kv_heads: 1, norm_after: true, qk_norm_whole: "
     "true",
     {"\"olmo2\"", "Olmo2ForCausalLM"},
     {{"model.layers.0.self_attn.q_norm.weight", {8}},
      {"model.layers.0.self_attn.k_norm.weight", {4}},
      {"model.layers.1.post_feedforward_layernorm.weight", {8}}}},
    {"Roberta",
     "context: 6, vocabulary: 50, family: bert, mask_token: 7, token_types: 1, position_offset: 2",
     {"\"roberta\"", "\"pad_token_id\": 1", "\"max_position_embeddings\": 8", "RobertaForMaskedLM"},
     {{"roberta.embeddings.position_embeddings.weight", {8, 8}}, {"lm_head.layer_norm.bias", {8}}}},
    {"Deit",
     "family: vit, image_size: 8, patch: 4, classes: 3, distillation_token: true",
     {"\"deit\"", "DeiTForImageClassification"},
     {{"deit.embeddings.distillation_token", {1, 1, 8}},
      {"deit.embeddings.position_embeddings", {1, 6, 8}}}}};

class FamilyExchange : public test::ExchangeTest, public testing::WithParamInterface<Relative> {
 protected:
  void use(const std::string& section) {
    test::write_text(config_, "model: {layers: 2, hidden: 8, heads: 2, " + section + "}\n");
    make_weights();
  }
};

TEST_P(FamilyExchange, RoundTripsBitForBitAndIsDetected) {
  use(GetParam().section);
  export_ours();
  run({"import", theirs_, "--out", back_});

  const auto back = read_all(back_);
  ASSERT_EQ(back.size(), weights_.size());
  for (const WholeTensor& tensor : weights_)
    EXPECT_EQ(back.at(tensor.name), tensor.values) << tensor.name;
  const std::string config = test::read_text(theirs_ + "/config.json");
  for (const std::string& part : GetParam().in_config)
    EXPECT_NE(config.find(part), std::string::npos) << part << config;
  const SafetensorsFile file(theirs_ + "/model.safetensors");
  for (const auto& [name, shape] : GetParam().tensors)
    EXPECT_EQ(file.shape(name), shape) << name;
}

INSTANTIATE_TEST_SUITE_P(Relatives, FamilyExchange, testing::ValuesIn(relatives),
                         [](const auto& info) { return info.param.name; });

using Phi3Exchange = FamilyExchange;

// Phi-3 is a Llama whose matrices are stored together.
TEST_F(Phi3Exchange, ReadsFusedMatrices) {
  use("context: 6, vocabulary: 50, family: llama, kv_heads: 1, intermediate: 12");
  export_ours();
  std::vector<WholeTensor> fused;
  auto theirs = read_all(theirs_);
  const SafetensorsFile shapes(theirs_ + "/model.safetensors");
  const auto joined = [&](const std::string& name, const std::vector<std::string>& parts) {
    WholeTensor whole{name, {0, hidden}, {}};
    for (const std::string& part : parts) {
      whole.shape = {whole.shape[0] + shapes.shape(part)[0], hidden};
      const std::vector<float>& values = theirs.at(part);
      whole.values.insert(whole.values.end(), values.begin(), values.end());
      theirs.erase(part);
    }
    fused.push_back(whole);
  };
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
    joined(attention + "qkv_proj.weight",
           {attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"});
    joined(mlp + "gate_up_proj.weight", {mlp + "gate_proj.weight", mlp + "up_proj.weight"});
  }
  for (const auto& [name, values] : theirs)
    fused.push_back({name, shapes.shape(name), values});
  const std::string phi = directory_.file("phi");
  std::filesystem::create_directories(phi);
  save_weights(phi + "/model.safetensors", fused, {});
  std::string config = test::read_text(theirs_ + "/config.json");
  config.replace(config.find("\"llama\""), 7, "\"phi3\"");
  test::write_text(phi + "/config.json", config);

  import_hf(phi);

  const auto back = read_all(back_);
  for (const WholeTensor& tensor : weights_)
    EXPECT_EQ(back.at(tensor.name), tensor.values) << tensor.name;
  config.insert(config.find("\"model_type\""),
                R"("rope_parameters": {"rope_type": "yarn", "factor": 2},)");
  test::write_text(phi + "/config.json", config);
  expect_error(
      ExitCode::config, [&] { import_hf(phi); }, "LongRoPE");
}

TEST_F(FamilyExchange, KindsThatNobodyHasAreRefused) {
  const auto refused = [&](const std::string& keys, const std::string& message) {
    use("context: 6, vocabulary: 50, family: " + keys);
    expect_error(
        ExitCode::config, [&] { export_ours(); }, message);
  };
  refused("llama, norm_after: true", "no model with these keys together");
  refused("llama, unrotated_every: 2, window: 3", "no model with these keys together");
  refused("bert, mask_token: 7, position_offset: 2, gelu: tanh", "exact GELU");
}

TEST_F(FamilyExchange, ReadsWhichLayersOfASmolLm3Rotate) {
  use("context: 6, vocabulary: 50, family: llama, unrotated_every: 2");
  export_ours();
  const std::string path = theirs_ + "/config.json", before = test::read_text(path);
  const std::string list = "\"no_rope_layers\": [\n    1,\n    0\n  ],";
  const auto with = [&](const std::string& other) {
    std::string text = before;
    text.replace(text.find(list), list.size(), other);
    test::write_text(path, text);
    return model_of_hf_config(path).as<LlamaOptions>().unrotated_every;
  };
  EXPECT_EQ(with(list), 2);
  EXPECT_EQ(with("\"no_rope_layers\": [0, 0],"), 1);
  EXPECT_EQ(with("\"no_rope_layers\": [1, 1],"), 0);
  EXPECT_EQ(with(""), 4);
  expect_error(
      ExitCode::config, [&] { (void)with("\"no_rope_layers\": [0, 1],"); }, "every N-th layer");
}

// As the configuration classes of transformers 5.24.
TEST_F(FamilyExchange, MissingKeysHaveTheLibrarysDefaults) {
  const std::string path = directory_.file("config.json");
  const auto read = [&](const std::string& keys) {
    test::write_text(path, "{\"model_type\": " + keys + "}");
    return model_of_hf_config(path);
  };
  const auto value = [&](const std::string& keys, const std::string& key) {
    Config config = default_config();
    config.model = read(keys);
    for (const auto& [name, text] : values_by_key(config))
      if (name == "model." + key) return text;
    return std::string("no such key");
  };
  const std::vector<std::array<std::string, 3>> expected{
      {"\"llama\"", "hidden", "4096"},
      {"\"mixtral\"", "norm_epsilon", "1e-05"},
      {"\"mixtral\"", "rope_theta", "1000000"},
      {"\"mixtral\"", "kv_heads", "8"},
      {"\"mixtral\"", "experts", "8"},
      {"\"mixtral\"", "experts_per_token", "2"},
      {"\"smollm3\"", "kv_heads", "4"},
      {"\"dots1\", \"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"sliding_window\": null",
       "kv_heads", "32"},
      {"\"qwen3_moe\"", "experts", "128"},
      {"\"qwen3_moe\"", "expert_intermediate", "768"},
      {"\"gpt_oss\"", "rope_factor", "32"},
      {"\"gemma3_text\"", "kv_heads", "4"},
      {"\"phi3\"", "vocabulary", "32064"},
      {"\"bert\"", "context", "512"},
      {"\"roberta\"", "token_types", "2"},
      {"\"gpt2\"", "layers", "12"},
      {"\"vit\"", "image_size", "224"},
      {"\"vit\"", "patch", "16"},
      {"\"resnet\"", "stages", "[3, 4, 6, 3]"},
      // Its window is that of all layers, whatever max_window_layers says.
      {"\"qwen3_moe\", \"use_sliding_window\": true, \"sliding_window\": 5", "window", "5"},
      {"\"qwen3_moe\", \"use_sliding_window\": true, \"sliding_window\": 5, \"max_window_layers\": "
       "24",
       "window", "5"},
      {"\"mixtral\", \"output_router_logits\": true, \"router_aux_loss_coef\": 0.32",
       "balance_loss", "0.02"},
      {"\"mixtral\", \"router_aux_loss_coef\": 0.32", "balance_loss", "0"},
      {"\"llama\", \"hidden_act\": \"swish\"", "hidden", "4096"}};
  for (const auto& [keys, key, wanted] : expected)
    EXPECT_EQ(value(keys, key), wanted) << keys << " " << key;
  expect_error(
      ExitCode::config, [&] { read("\"gpt2\", \"embd_pdrop\": 0.2"); }, "embd_pdrop is 0.2");
}

TEST_F(FamilyExchange, ADirectoryKeepsItsTokenizerAndWhatModelsHereLack) {
  use("context: 6, vocabulary: 50, family: bert, mask_token: 7");
  export_ours();
  std::string config = test::read_text(theirs_ + "/config.json");
  const std::string dropout = "\"attention_probs_dropout_prob\": ";
  config.replace(config.find(dropout), dropout.size() + 3, dropout + "0.25");
  test::write_text(theirs_ + "/config.json", config);
  for (const char* const name : {"vocab.txt", "spiece.model", "sentencepiece.bpe.model"})
    test::write_text(theirs_ + "/" + name, name);
  const std::string imported = directory_.file("run"), again = directory_.file("again");
  run({"import", theirs_, "--out", imported});
  run({"export", imported, "--out", again});
  for (const char* const name : {"vocab.txt", "spiece.model", "sentencepiece.bpe.model"})
    EXPECT_EQ(test::read_text(again + "/" + name), name);
  EXPECT_NE(test::read_text(again + "/config.json").find(dropout + "0.25"), std::string::npos);

  for (const char* const broken : {"{\"eos_token_id\": 2", "{\"eos_token_id\": \"</s>\"}",
                                   "{\"eos_token_id\": [2, -1]}", "{\"eos_token_id\": 2.5}"}) {
    test::write_text(theirs_ + "/generation_config.json", broken);
    expect_error(
        ExitCode::config,
        [&] {
          run({"import", theirs_, "--out", imported, "--force"});
        },
        "generation_config.json");
  }
}

}  // namespace
}  // namespace trireme
