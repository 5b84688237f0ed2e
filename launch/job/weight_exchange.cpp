// SPDX-License-Identifier: Apache-2.0
#include "launch/job/weight_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "models/gpt/hugging_face.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/verify.h"
#include "runtime/checkpoint/weight_files.h"
#include "runtime/checkpoint/weights.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using hugging_face::NamePair;

void check_family(const Config& config) {
  if (config.model.family == "gpt2") return;
  fail(ExitCode::config,
       "model.family: {} has no exchange with Hugging Face (filters are (out, height, width, in) "
       "here and (out, in, height, width) there, and the stems differ); only gpt2 has",
       config.model.family);
}

// (rows, columns) -> (columns, rows)
std::vector<float> transposed(const std::vector<float>& from, std::int64_t rows,
                              std::int64_t columns) {
  std::vector<float> to(from.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c)
      to[static_cast<std::size_t>(c * rows + r)] = from[static_cast<std::size_t>(r * columns + c)];
  }
  return to;
}

// Our shape of a tensor of theirs.
Shape our_shape(const NamePair& pair) {
  if (pair.transposed) return {pair.shape[1], pair.shape[0]};
  if (pair.padding_rows > 0) return {pair.shape[0] + pair.padding_rows, pair.shape[1]};
  return pair.shape;
}

WholeTensor to_theirs(const NamePair& pair, std::vector<float> values) {
  values.resize(static_cast<std::size_t>(pair.shape.count()));  // without the padding
  if (pair.transposed) values = transposed(values, pair.shape[1], pair.shape[0]);
  return {pair.theirs, pair.shape, std::move(values)};
}

WholeTensor to_ours(const NamePair& pair, std::vector<float> values) {
  if (pair.transposed) values = transposed(values, pair.shape[0], pair.shape[1]);
  const Shape shape = our_shape(pair);
  values.resize(static_cast<std::size_t>(shape.count()), 0.0F);
  return {pair.ours, shape, std::move(values)};
}

StoredValues source_of(const std::string& from, bool average) {
  if (!average) return stored_weights(from);
  const FoundCheckpoint found = open_checkpoint(from);
  if (!found.manifest.has(ValueKind::average))
    fail(ExitCode::config, "{}: holds no averaged weights; train.ema_decay was 0", from);
  const auto damages = verify_checkpoint(from, found.manifest);
  if (!damages.empty()) fail(ExitCode::checkpoint, "{}/{}", from, damages.front().describe());
  return stored_values(from, found.manifest, ValueKind::average);
}

// What transformers reads beside the weights must be this model.
void check_their_config(const std::string& path, const ModelConfig& model) {
  std::ifstream file(path);
  if (!file) return;
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) fail(ExitCode::checkpoint, "{}: is not a JSON object", path);
  const auto expect = [&](const char* key, const nlohmann::json& value, std::string_view ours) {
    if (!json.contains(key) || json[key] == value) return;
    fail(ExitCode::config, "{}: {} is {}, {} needs {}", path, key, json[key].dump(), ours,
         value.dump());
  };
  expect("n_layer", model.layers, "model.layers");
  expect("n_head", model.heads, "model.heads");
  expect("n_embd", model.hidden, "model.hidden");
  expect("n_positions", model.context, "model.context");
  expect("vocab_size", model.vocabulary, "model.vocabulary");
  expect("activation_function", "gelu_new", "our GELU");
  expect("layer_norm_epsilon", 1e-5, "our layer norm");
  expect("tie_word_embeddings", true, "our head");
  expect("scale_attn_by_inverse_layer_idx", false, "our attention");
}

void check_tied_head(const WeightFiles& files, const std::vector<float>& tokens) {
  if (!files.contains("lm_head.weight")) return;
  const std::vector<float> head = files.read("lm_head.weight");
  const std::size_t bytes = std::min(head.size(), tokens.size()) * sizeof(float);
  if (head.size() != tokens.size() || std::memcmp(head.data(), tokens.data(), bytes) != 0)
    fail(ExitCode::checkpoint,
         "{}: lm_head.weight differs from wte.weight; the head is tied to the tokens here",
         files.file_of("lm_head.weight").path());
}

}  // namespace

void export_weights(const std::string& from, const Config& config, const std::string& out,
                    bool average) {
  check_family(config);
  const StoredValues stored = source_of(from, average);
  StoredReader reader(stored);
  std::vector<WholeTensor> tensors;
  for (const NamePair& pair : hugging_face::gpt2_names(config.model)) {
    const auto found = stored.tensors.find(pair.ours);
    if (found == stored.tensors.end() || found->second.shape != our_shape(pair))
      fail(ExitCode::checkpoint, "{}: has no tensor {} {}; --config is of another model", from,
           pair.ours, our_shape(pair).to_string());
    tensors.push_back(to_theirs(pair, reader.whole(found->second)));
  }
  std::error_code error;
  fs::create_directories(out, error);
  if (error) library_failed(fmt::format("mkdir({})", out), error.message(), ExitCode::config);
  save_weights(out + "/model.safetensors", tensors, {{"format", "pt"}});
  write_file(out + "/config.json", hugging_face::gpt2_config_json(config.model),
             ExitCode::internal);
  fmt::print("{}: {} tensors, and config.json\n", out + "/model.safetensors", tensors.size());
}

void import_weights(const std::string& from, const Config& config, const std::string& out) {
  check_family(config);
  const std::string directory = fs::is_directory(from) ? from : parent_directory(from);
  check_their_config(directory + "/config.json", config.model);
  const WeightFiles files(from);
  std::map<std::string, std::string> by_plain_name;
  for (const std::string& name : files.names()) {
    if (const auto plain = hugging_face::plain_name(name)) by_plain_name.emplace(*plain, name);
  }
  std::vector<WholeTensor> tensors;
  for (const NamePair& pair : hugging_face::gpt2_names(config.model)) {
    const auto found = by_plain_name.find(pair.theirs);
    if (found == by_plain_name.end() ||
        files.file_of(found->second).shape(found->second) != pair.shape)
      fail(ExitCode::checkpoint, "{}: has no tensor {} {}; --config is of another model", from,
           pair.theirs, pair.shape.to_string());
    std::vector<float> values = files.read(found->second);
    if (pair.theirs == "wte.weight") check_tied_head(files, values);
    tensors.push_back(to_ours(pair, std::move(values)));
    by_plain_name.erase(found);
  }
  if (!by_plain_name.empty())
    fail(ExitCode::checkpoint, "{}: holds tensor {}, which the model of --config does not have",
         from, by_plain_name.begin()->second);
  save_weights(out, tensors, {{"format", "trireme"}});
  fmt::print("{}: {} tensors\n", out, tensors.size());
}

}  // namespace trireme
