// SPDX-License-Identifier: Apache-2.0
// `trireme checkpoint`: the output of its subcommands, and conversion of weights to Hugging Face
// and back.
#include <gmock/gmock.h>
#include <sys/mount.h>

#include "launch/exchange/hf_config.h"
#include "models/llama/llama.h"
#include "runtime/checkpoint/files/names.h"
#include "tests/checkpoint/exchange_fixture.h"

namespace trireme {
namespace {

using test::CommandTest;
using test::ExchangeTest;
using test::expect_error;
using test::run;
using testing::HasSubstr;

TEST_F(CommandTest, InspectPrintsTheNewestOfARun) {
  save("run", 1, 1, 8);
  save("run", 20, 2, 8);

  const std::string text = run({"inspect", directory_.file("run"), "--tensors"});

  for (const char* const part :
       {"step_00000020", "step      20", "data 1 x tensor 1 x pipeline 1, ZeRO 0",
        "model, optimizer/first, optimizer/second, average", "seed      1234", "b.qkv.weight",
        "(6, 72)", "in 8 tensor blocks", "statistic"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in " << text;
}

TEST_F(CommandTest, VerifyNamesDamagedTensors) {
  save("run", 1, 1, 1);
  save("run", 2, 2, 1);
  EXPECT_NE(run({"inspect", "--verify", directory_.file("run")}).find("step_00000002: good"),
            std::string::npos);
  const std::string path = directory_.file("run/checkpoints/step_00000002");
  const Manifest manifest = open_checkpoint(path).manifest;
  std::string text = test::read_text(path + "/rank_00000.h5");
  text[manifest.files[0].offsets[0]] ^= 1;
  test::write_text(path + "/rank_00000.h5", text);

  expect_error(
      ExitCode::checkpoint,
      [&] {
        run({"inspect", "--verify", directory_.file("run")});
      },
      "1 of 2 checkpoints is damaged", "rank_00000.h5: tensor model/",
      "does not match its checksum");
}

TEST_F(CommandTest, DiffComparesWholeTensorsOfAnyLayout) {
  save("a", 1, 1, 1);
  save("b", 1, 1, 8);
  save("c", 1, 2, 1);

  EXPECT_NE(run({"inspect", directory_.file("a"), directory_.file("b")}).find("tensors equal"),
            std::string::npos);
  expect_error(
      ExitCode::internal,
      [&] {
        run({"inspect", directory_.file("a"), directory_.file("c")});
      },
      "tensors differ between");
}

TEST_F(CommandTest, APlaceWithoutCheckpointsIsNamed) {
  expect_error(
      ExitCode::checkpoint,
      [&] {
        run({"inspect", directory_.path()});
      },
      "holds no checkpoint");
}

TEST_F(ExchangeTest, RoundTripsThroughHuggingFaceBitForBit) {
  export_ours();
  import_hf(theirs_);

  const auto back = read_all(back_);
  ASSERT_EQ(back.size(), weights_.size());
  for (const WholeTensor& tensor : weights_)
    EXPECT_EQ(back.at(tensor.name), tensor.values) << tensor.name;
}

TEST_F(ExchangeTest, AFullDiskIsNamedAndNothingIsLeftThere) {
  export_ours();
  const std::string disk = directory_.file("disk");
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=8k") != 0)
    GTEST_SKIP() << "no right to mount a tmpfs here";
  const auto fails = [&](std::vector<std::string> command) {
    expect_error(
        ExitCode::internal, [&] { run(command); }, disk + "/new/", "the disk is full");
    EXPECT_TRUE(std::filesystem::is_empty(disk));
  };

  fails({"export", ours_, "--config", config_, "--out", disk + "/new/model"});
  fails({"import", theirs_, "--out", disk + "/new/run"});

  ::umount2(disk.c_str(), MNT_DETACH);
}

TEST_F(ExchangeTest, HasTheirNamesShapesAndConfig) {
  export_ours();

  const SafetensorsFile file(theirs_ + "/model.safetensors");
  EXPECT_EQ(file.shape("wte.weight"), (Shape{50, 8}));
  EXPECT_EQ(file.shape("wpe.weight"), (Shape{6, 8}));
  EXPECT_EQ(file.shape("h.1.attn.c_attn.weight"), (Shape{8, 24}));
  EXPECT_EQ(file.shape("h.0.mlp.c_proj.weight"), (Shape{32, 8}));
  EXPECT_EQ(file.shape("ln_f.bias"), (Shape{8}));
  EXPECT_EQ(file.names().size(), 2U + 2 * 12 + 2);
  const std::string config = test::read_text(theirs_ + "/config.json");
  for (const char* const part :
       {"\"n_layer\": 2", "\"n_head\": 2", "\"vocab_size\": 50", "\"gelu_new\""})
    EXPECT_NE(config.find(part), std::string::npos) << part;
}

TEST_F(ExchangeTest, ReadsShardsPrefixesMasksAndATiedHead) {
  export_ours();
  std::map<std::string, std::vector<float>> first, second;
  std::string map;
  for (const auto& [name, values] : read_all(theirs_)) {
    const bool early = name.starts_with("h.0");
    (early ? first : second)["transformer." + name] = values;
    map += fmt::format(R"("transformer.{}": "{}.safetensors", )", name, early ? "a" : "b");
  }
  second["lm_head.weight"] = second.at("transformer.wte.weight");
  second["transformer.h.0.attn.bias"] =
      std::vector<float>(static_cast<std::size_t>(vocabulary * hidden), 1.0F);
  map += R"("lm_head.weight": "b.safetensors", "transformer.h.0.attn.bias": "b.safetensors")";
  rewrite(directory_.file("a.safetensors"), first);
  rewrite(directory_.file("b.safetensors"), second);
  const std::string index = directory_.file("model.safetensors.index.json");
  test::write_text(index, R"({"metadata": {}, "weight_map": {)" + map + "}}");

  import_hf(index);

  const auto back = read_all(back_);
  for (const WholeTensor& tensor : weights_)
    EXPECT_EQ(back.at(tensor.name), tensor.values) << tensor.name;
  test::write_text(index, R"({"weight_map": {"x": "../a.safetensors"}})");
  expect_error(
      ExitCode::checkpoint, [&] { import_hf(index); }, "outside the index's");
  test::write_text(index, R"({"weight_map": {"wte.weight": "a.safetensors"}})");
  expect_error(
      ExitCode::checkpoint, [&] { import_hf(index); }, "is not in the file");
}

TEST_F(ExchangeTest, NamesAnotherFileInPlaceOfWeights) {
  const auto refused = [&](const std::string& place, const std::string& message) {
    expect_error(
        ExitCode::checkpoint, [&] { import_hf(directory_.file(place)); }, message);
  };
  std::filesystem::create_directories(directory_.file("empty"));
  refused("empty", "it holds no *.safetensors file");
  test::write_text(directory_.file("empty/model.safetensors"),
                   "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
  refused("empty", "LFS");
  std::filesystem::create_directories(directory_.file("pickle"));
  std::string pickle("PK\x03\x04");
  pickle.append(26, '\0').append("pytorch_model/data.pkl");
  test::write_text(directory_.file("pickle/pytorch_model.bin"), pickle);
  const std::string advice =
      "a Python pickle, as torch.save writes; loading one can run code, so it is refused: load it "
      "with its own library and save the tensors with safetensors";
  refused("pickle", "its pytorch_model.bin is " + advice);
  refused("pickle/pytorch_model.bin", "it is " + advice);
  std::filesystem::create_directories(directory_.file("shards"));
  for (const char* const name : {"1", "2"})
    test::write_text(directory_.file(fmt::format("shards/model-0000{}-of-00002.safetensors", name)),
                     "");
  refused("shards", "it holds model-00001-of-00002.safetensors of 2 files, but no index");
}

TEST_F(ExchangeTest, RefusesAnotherModel) {
  export_ours();
  const auto hf = read_all(theirs_);
  auto untied = hf;
  untied["lm_head.weight"] = std::vector<float>(hf.at("wte.weight").size(), 1.0F);
  rewrite(directory_.file("untied.safetensors"), untied);
  expect_error(
      ExitCode::checkpoint, [&] { import_hf(directory_.file("untied.safetensors")); },
      "lm_head.weight differs");
  auto missing = hf;
  missing.erase("h.1.ln_2.bias");
  rewrite(directory_.file("missing.safetensors"), missing);
  expect_error(
      ExitCode::checkpoint, [&] { import_hf(directory_.file("missing.safetensors")); },
      "has no tensor h.1.ln_2.bias (8)");
  std::string config = test::read_text(theirs_ + "/config.json");
  config.replace(config.find("gelu_new"), 8, "gelu_old");
  test::write_text(theirs_ + "/config.json", config);
  expect_error(
      ExitCode::config, [&] { import_hf(theirs_); },
      "activation_function is \"gelu_old\", supported are gelu_new, gelu_pytorch_tanh");
  test::write_text(theirs_ + "/config.json", R"({"model_type": "llama"})");
  expect_error(
      ExitCode::config, [&] { import_hf(theirs_); }, "describes a model with");
  test::write_text(theirs_ + "/config.json", R"({"model_type": "t5"})");
  expect_error(
      ExitCode::config, [&] { import_hf(theirs_); }, "model_type is \"t5\"");
  test::write_text(config_, "model: {family: resnet, stem: small}\n");
  expect_error(
      ExitCode::config, [&] { export_ours(); }, "model.stem: small is not supported");
}

// Two query heads share one key head; heads are wider than hidden / heads.
class LlamaExchange : public ExchangeTest {
 protected:
  explicit LlamaExchange(const std::string& more = "")
      : ExchangeTest(", family: llama, kv_heads: 1, head_size: 6, intermediate: 12" + more) {}

  // Replaces one value in config.json.
  void replace(const std::string& from, const std::string& to) {
    std::string text = test::read_text(theirs_ + "/config.json");
    ASSERT_NE(text.find(from), std::string::npos) << from << " is not in " << text;
    text.replace(text.find(from), from.size(), to);
    test::write_text(theirs_ + "/config.json", text);
  }
  void expect_window(const std::string& from, const std::string& to, std::int64_t window) {
    const std::string before = test::read_text(theirs_ + "/config.json");
    replace(from, to);
    EXPECT_EQ(model_of_hf_config(theirs_ + "/config.json").as<LlamaOptions>().window, window) << to;
    test::write_text(theirs_ + "/config.json", before);
  }
  static std::string types(const std::string& first, const std::string& second) {
    return fmt::format(R"("layer_types": ["{}", "{}"],)", first, second);
  }
  void expect_refused(const std::string& from, const std::string& to, const std::string& message) {
    const std::string before = test::read_text(theirs_ + "/config.json");
    replace(from, to);
    expect_error(
        ExitCode::config, [&] { import_hf(theirs_); }, message);
    expect_error(
        ExitCode::config,
        [&] {
          run({"import", theirs_, "--out", back_, "--force"});
        },
        message);
    test::write_text(theirs_ + "/config.json", before);
  }
};
class Qwen3Exchange : public LlamaExchange {
 protected:
  Qwen3Exchange() : LlamaExchange(", qk_norm: true, tied_head: true, window: 5") {}
};

TEST_F(LlamaExchange, RoundTripsThroughHuggingFaceAndIsDetected) {
  export_ours();
  const SafetensorsFile file(theirs_ + "/model.safetensors");
  EXPECT_EQ(file.shape("model.embed_tokens.weight"), (Shape{50, 8}));
  EXPECT_EQ(file.shape("lm_head.weight"), (Shape{50, 8}));
  EXPECT_EQ(file.shape("model.layers.1.self_attn.q_proj.weight"), (Shape{12, 8}));
  EXPECT_EQ(file.shape("model.layers.1.self_attn.v_proj.weight"), (Shape{6, 8}));
  EXPECT_EQ(file.shape("model.layers.0.mlp.up_proj.weight"), (Shape{12, 8}));
  EXPECT_EQ(file.names().size(), 2U * 9 + 3);

  const std::string printed = run({"import", theirs_, "--out", back_});

  const auto back = read_all(back_);
  ASSERT_EQ(back.size(), weights_.size());
  for (const WholeTensor& tensor : weights_)
    EXPECT_EQ(back.at(tensor.name), tensor.values) << tensor.name;
  const std::string section = printed.substr(printed.find("model: {"));
  EXPECT_EQ(parse_config(section, "printed", {}).model.as<LlamaOptions>(),
            (LlamaOptions{.layers = 2,
                          .hidden = 8,
                          .heads = 2,
                          .kv_heads = 1,
                          .head_size = 6,
                          .intermediate = 12,
                          .context = 6,
                          .vocabulary = 50}))
      << section;
}

TEST_F(Qwen3Exchange, HasItsKindItsNormsAndItsWindow) {
  export_ours();
  import_hf(theirs_);

  const auto back = read_all(back_);
  for (const WholeTensor& tensor : weights_)
    EXPECT_EQ(back.at(tensor.name), tensor.values) << tensor.name;
  const std::string config = test::read_text(theirs_ + "/config.json");
  for (const char* const part :
       {"\"qwen3\"", "Qwen3ForCausalLM", "\"sliding_window\": 5", "\"tie_word_embeddings\": true"})
    EXPECT_NE(config.find(part), std::string::npos) << part;
  EXPECT_FALSE(read_all(theirs_).contains("lm_head.weight"));
  const std::string all = "\"max_window_layers\": 0,";
  expect_refused(all, "\"max_window_layers\": 1,", "so that 1 of 2 layers attend to all tokens");
  // By default the first 28 layers have no window.
  for (const char* const none : {"\"max_window_layers\": 2,", ""})
    expect_window(all, none, 0);
  expect_window("\"use_sliding_window\": true", "\"use_sliding_window\": false", 0);
  expect_window("\"sliding_window\": 5,", "", 4096);
  expect_window(all, all + types("sliding_attention", "sliding_attention"), 5);
  expect_window(all, all + types("full_attention", "full_attention"), 0);
  expect_refused(all, all + types("full_attention", "sliding_attention"), "layer_types is [");
  expect_refused(all, all + types("full_attention", "chunked_attention"), "not a list of 2 times");
  expect_refused("\"use_sliding_window\": true",
                 types("full_attention", "sliding_attention") + "\"use_sliding_window\": false",
                 "but the window of this file is none");
}

TEST_F(LlamaExchange, ReadsRotationsAsTheLibraryDoes) {
  export_ours();
  const auto expect_rope = [&](const std::string& text, double factor, std::int64_t original) {
    const std::string before = test::read_text(theirs_ + "/config.json");
    replace("\"rope_scaling\": null", text);
    const auto model = model_of_hf_config(theirs_ + "/config.json").as<LlamaOptions>();
    EXPECT_EQ(model.rope_factor, factor) << text;
    EXPECT_EQ(model.rope_original_context, original) << text;
    test::write_text(theirs_ + "/config.json", before);
  };
  const std::string yarn = R"("rope_scaling": {"rope_type": "yarn", )";
  expect_rope(yarn + R"("factor": 4})", 4, 6);
  expect_rope(yarn + R"("factor": null, "original_max_position_embeddings": 3})", 2, 3);
  expect_rope(yarn + R"("factor": null}, "original_max_position_embeddings": 2)", 3, 2);
  expect_rope(yarn + R"("factor": 4, "original_max_position_embeddings": 3, "mscale": 1},
              "original_max_position_embeddings": 2)",
              4, 2);
  expect_rope(R"("rope_scaling": {"type": "linear", "factor": 3})", 3, 0);
  expect_rope(R"("rope_parameters": {"rope_type": "default", "rope_theta": 500.0})", 1, 0);

  const auto refused = [&](const std::string& text, const std::string& message) {
    expect_refused("\"rope_scaling\": null", text, message);
  };
  refused(R"("rope_scaling": {"type": "linear"})", "rope_scaling.factor is missing");
  refused(yarn + R"("beta_fast": 20})", "rope_scaling.factor is missing");
  refused(R"("rope_scaling": {"rope_type": "llama3", "factor": 2, "high_freq_factor": 4})",
          "rope_scaling.low_freq_factor is missing");
  refused(yarn + R"("factor": 2, "attention_factor": 1.5})",
          "rope_scaling.attention_factor is 1.5");
  refused(yarn + R"("factor": 2, "truncate": false})", "rope_scaling.truncate is false");
  refused(R"("rope_scaling": {"rope_type": "default", "partial_rotary_factor": 0.5})",
          "rope_scaling.partial_rotary_factor is 0.5, but models here support only 1.0");
  refused(R"("rope_parameters": {"full_attention": {"rope_theta": 500.0}})",
          "rope_parameters.full_attention is");
  refused(R"("rope_scaling": {"type": "linear", "factor": 3}, "rope_parameters": {"factor": 2})",
          "rope_parameters differs");
}

TEST_F(LlamaExchange, RefusesUnsupportedSettingsOfItsConfig) {
  export_ours();
  expect_refused("\"silu\"", "\"gelu\"", "hidden_act is \"gelu\", our SwiGLU needs \"silu\"");
  expect_refused("\"mlp_bias\": false", "\"mlp_bias\": true", "mlp_bias is true");
  const std::string first = "\"model_type\"";
  expect_refused(first, R"("quantization_config": {"bits": 4}, "model_type")",
                 R"(quantization_config is {"bits":4}, but its effect on a model)");
  expect_refused(first, R"("sliding_window": 3, "model_type")", "sliding_window is 3");
  expect_refused(first, R"("partial_rotary_factor": 0.5, "model_type")", "support only 1.0");
  expect_refused("\"rope_scaling\": null",
                 R"("rope_scaling": {"rope_type": "longrope", "factor": 2})",
                 "rope_scaling.rope_type is \"longrope\"");
  expect_refused("\"rope_scaling\": null",
                 R"("rope_scaling": {"rope_type": "yarn", "factor": 2, "mscale": 1.0,
                 "mscale_all_dim": 0.7})",
                 "rope_scaling.mscale is 1.0");
  expect_refused("\"rope_scaling\": null", "\"rope_scaling\": 7", "rope_scaling is 7");
  expect_refused("\"num_key_value_heads\": 1", "\"num_key_value_heads\": 3",
                 "3 does not divide model.heads = 2");
  expect_refused("\"head_dim\": 6", "\"head_dim\": 7", "7 is a head size");
  expect_refused("\"hidden_size\": 8", "\"hidden_size\": \"8\"", "hidden_size is \"8\"");
  replace(first,
          "\"deep\": " + std::string(100'000, '[') + std::string(100'000, ']') + "," + first);
  expect_error(
      ExitCode::checkpoint, [&] { import_hf(theirs_); }, "nested more than 128 levels deep");
}

TEST_F(LlamaExchange, NamesMissingExtraAndMisshapenTensors) {
  export_ours();
  const auto hf = read_all(theirs_);
  const auto refuses = [&](const auto& tensors, const std::string& message) {
    rewrite(directory_.file("other.safetensors"), tensors);
    expect_error(
        ExitCode::checkpoint, [&] { import_hf(directory_.file("other.safetensors")); }, message);
  };
  auto missing = hf;
  missing.erase("model.layers.1.self_attn.k_proj.weight");
  refuses(missing, "has no tensor model.layers.1.self_attn.k_proj.weight (6, 8)");
  auto extra = hf;
  extra["model.layers.7.oars"] = std::vector<float>(static_cast<std::size_t>(vocabulary * hidden));
  refuses(extra, "holds tensor model.layers.7.oars");
  test::write_text(config_,
                   "model: {family: llama, layers: 2, hidden: 8, heads: 2, kv_heads: 2, head_size: "
                   "6, intermediate: 12, context: 6, vocabulary: 50}\n");
  refuses(hf, "k_proj.weight is (6, 8), not (12, 8)");
  expect_error(
      ExitCode::config, [&] { import_hf(theirs_); }, "describes a model with model.kv_heads: 1");
  test::write_text(config_, "model: {family: llama, qk_norm: true, qkv_bias: true}\n");
  expect_error(
      ExitCode::config, [&] { export_ours(); }, "none with both");
}

TEST_F(LlamaExchange, ABaseModelWithoutItsHeadIsNamed) {
  export_ours();
  std::vector<WholeTensor> base;
  const WeightFiles hf(theirs_ + "/model.safetensors");
  std::map<std::string, std::vector<float>> values = read_all(theirs_);
  for (const std::string& name : hf.names())
    if (name.starts_with("model."))
      base.push_back({name.substr(6), hf.file_of(name).shape(name), values.at(name)});
  save_weights(directory_.file("base.safetensors"), base, {});

  expect_error(
      ExitCode::checkpoint, [&] { import_hf(directory_.file("base.safetensors")); },
      "has no tensor lm_head.weight (50, 8); the config is for another model, or this one was "
      "saved "
      "without head.weight: then give --reinitialise 'head.*'");
}

TEST_F(LlamaExchange, AnImportChecksItselfByAForwardPass) {
  run({"export", ours_, "--config", config_, "--out", theirs_, "--expectations"});
  const auto import_checked = [&](const std::string& from) {
    return run({"import", from, "--config", config_, "--out", back_, "--force"});
  };
  EXPECT_THAT(import_checked(theirs_), HasSubstr("600 logits as in trireme_expectations"));
  EXPECT_THAT(run({"import", theirs_, "--out", back_, "--force", "--no-check"}),
              HasSubstr("logits to compare with were not read (--no-check)"));

  auto planted = read_all(theirs_);
  for (float& value : planted.at("model.layers.1.self_attn.o_proj.weight"))
    value = -value;
  rewrite(theirs_ + "/model.safetensors", planted);

  expect_error(
      ExitCode::checkpoint, [&] { import_checked(theirs_); },
      "the largest difference of logits is");
  EXPECT_FALSE(std::filesystem::exists(back_));
  std::filesystem::remove(theirs_ + "/trireme_expectations.safetensors");
  EXPECT_THAT(import_checked(theirs_), HasSubstr("logits to compare with are not there (they would "
                                                 "be in trireme_expectations.safetensors)"));
}

TEST_F(LlamaExchange, ExpectationsOfAnotherModelAreNamed) {
  export_ours();
  const auto refuses = [&](std::vector<std::int64_t> ids, const Shape& of_ids,
                           const Shape& of_logits, const std::string& message) {
    std::vector<float> logits(static_cast<std::size_t>(of_logits.count()), 0.0F);
    const std::vector<NamedTensor> tensors = {
        {"input_ids", {reinterpret_cast<std::byte*>(ids.data()), DType::i64, of_ids}},
        {"logits", {reinterpret_cast<std::byte*>(logits.data()), DType::f32, of_logits}}};
    write_safetensors(theirs_ + "/trireme_expectations.safetensors", tensors);
    expect_error(
        ExitCode::checkpoint, [&] { import_hf(theirs_); }, message);
    EXPECT_FALSE(std::filesystem::exists(back_));
  };

  refuses({1, 50}, {1, 2}, {1, 2, 50}, "token id 50 lies outside the model's vocabulary [0, 50)");
  refuses({1, 2, 3, 4, 5, 6, 7}, {1, 7}, {1, 7, 50}, "texts of 7 tokens, but the model reads");
  refuses({1, 2}, {1, 2}, {1, 2, 49}, "logits is f32 (1, 2, 49), but the model needs (1, 2, 50)");
  refuses({1, 2}, {2}, {1, 2, 50}, "input_ids is i64 (2), not (texts, tokens)");
}

}  // namespace
}  // namespace trireme
