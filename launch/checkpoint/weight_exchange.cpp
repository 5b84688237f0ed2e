// SPDX-License-Identifier: Apache-2.0
#include "launch/checkpoint/weight_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "models/config.h"
#include "models/gpt/gpt_config.h"
#include "models/gpt/hugging_face.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/files/weight_files.h"
#include "runtime/checkpoint/save/weights.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using hugging_face::NamePair;

constexpr std::uint64_t their_config_limit = std::uint64_t{1} << 24;

const GptOptions& gpt2_of(const ModelConfig& model) {
  if (model.family == gpt2_name) return model.as<GptOptions>();
  fail(ExitCode::config,
       "model.family: {} has no exchange with Hugging Face (filters are (out, height, width, in) "
       "here and (out, in, height, width) there, and the stems differ); only gpt2 has",
       model.family);
}

void refuse_to_replace(const std::string& path, const Destination& destination) {
  std::error_code error;
  if (fs::is_directory(path, error))
    fail(ExitCode::config, "--out {}: is a directory; name a file in it", path);
  if (destination.force || !fs::exists(path, error)) return;
  fail(ExitCode::config, "--out: {} exists; give another place, or --force to replace it", path);
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

constexpr const char* their_config = "config.json";

std::string directory_of(const std::string& weights) {
  return fs::is_directory(weights) ? weights : parent_directory(weights);
}

// What transformers reads beside the weights; null where there is none.
nlohmann::json read_their_config(const std::string& path) {
  if (!fs::exists(path)) return nullptr;
  auto json = nlohmann::json::parse(read_whole_file(path, their_config_limit, ExitCode::checkpoint),
                                    nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) fail(ExitCode::checkpoint, "{}: is not a JSON object", path);
  return json;
}

// It must be this model.
void check_their_config(const std::string& path, const GptOptions& model) {
  const nlohmann::json json = read_their_config(path);
  if (json.is_null()) return;
  const auto expect = [&](const char* key, const nlohmann::json& value, std::string_view ours) {
    if (!json.contains(key) || json[key] == value) return;
    fail(ExitCode::config, "{}: {} is {}, {} needs {}", path, key, json[key].dump(), ours,
         value.dump());
  };
  expect("model_type", "gpt2", "model.family: gpt2");
  expect("n_layer", model.layers, "model.layers");
  expect("n_head", model.heads, "model.heads");
  expect("n_embd", model.hidden, "model.hidden");
  expect("n_positions", model.context, "model.context");
  expect("vocab_size", model.vocabulary, "model.vocabulary");
  expect("activation_function", "gelu_new", "our GELU");
  expect("layer_norm_epsilon", 1e-5, "our layer norm");
  expect("tie_word_embeddings", true, "our head");
  expect("scale_attn_by_inverse_layer_idx", false, "our attention");
  if (json.contains("n_inner") && !json["n_inner"].is_null())
    expect("n_inner", 4 * model.hidden, "our MLP");
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

void export_weights(const RunState& from, const Config& config, const Destination& destination,
                    bool average) {
  const GptOptions& model = gpt2_of(config.model);
  const std::string weights = destination.to + "/model.safetensors";
  const std::string description = destination.to + "/" + their_config;
  refuse_to_replace(weights, destination);
  refuse_to_replace(description, destination);
  const ValueKind kind = average ? ValueKind::average : ValueKind::model;
  const StoredValues stored = from.values(kind);
  StoredReader reader(stored);
  std::vector<WholeTensor> tensors;
  for (const NamePair& pair : hugging_face::gpt2_names(model)) {
    const auto found = stored.tensors.find(pair.ours);
    if (found == stored.tensors.end() || found->second.shape != our_shape(pair))
      fail(ExitCode::checkpoint, "{}: has no tensor {} {}; --config is of another model", from.path,
           pair.ours, our_shape(pair).to_string());
    tensors.push_back(to_theirs(pair, reader.whole(found->second)));
  }
  std::error_code error;
  fs::create_directories(destination.to, error);
  if (error)
    library_failed(fmt::format("mkdir({})", destination.to), error.message(), ExitCode::config);
  save_weights(weights, tensors, {{"format", "pt"}});
  write_file(description, hugging_face::gpt2_config_json(model), ExitCode::internal);
  fmt::print("from  {}\n{}: {} tensors, and {}\n", from.describe(kind), weights, tensors.size(),
             their_config);
}

ModelConfig model_of_hugging_face(const std::string& weights) {
  const std::string path = directory_of(weights) + "/" + their_config;
  const nlohmann::json json = read_their_config(path);
  if (json.is_null())
    fail(ExitCode::config, "{}: there is no {} beside the weights; give --config", weights,
         their_config);
  const auto type = json.find("model_type");
  if (type == json.end() || *type != "gpt2")
    fail(ExitCode::config, "{}: model_type is {}; weights of gpt2 models can be imported", path,
         type == json.end() ? "missing" : type->dump());
  std::string text = "model: {family: gpt2";
  for (const auto& [ours, theirs] : {std::pair{"layers", "n_layer"},
                                     {"hidden", "n_embd"},
                                     {"heads", "n_head"},
                                     {"context", "n_positions"},
                                     {"vocabulary", "vocab_size"}}) {
    const auto value = json.find(theirs);
    if (value == json.end() || !value->is_number_integer())
      fail(ExitCode::config, "{}: {} is {}, not a number; give --config", path, theirs,
           value == json.end() ? "missing" : value->dump());
    text += fmt::format(", {}: {}", ours, value->dump());
  }
  return parse_config(text + "}\n", path, {}).model;
}

std::string model_section(const ModelConfig& any) {
  const GptOptions& model = gpt2_of(any);
  return fmt::format(
      "model: {{family: {}, layers: {}, hidden: {}, heads: {}, context: {}, vocabulary: {}}}\n",
      any.family, model.layers, model.hidden, model.heads, model.context, model.vocabulary);
}

void import_weights(const std::string& from, const ModelConfig& any,
                    const Destination& destination) {
  const GptOptions& model = gpt2_of(any);
  refuse_to_replace(destination.to, destination);
  check_their_config(directory_of(from) + "/" + their_config, model);
  const WeightFiles files(from);
  std::map<std::string, std::string> by_plain_name;
  for (const std::string& name : files.names()) {
    if (const auto plain = hugging_face::plain_name(name)) by_plain_name.emplace(*plain, name);
  }
  std::vector<WholeTensor> tensors;
  for (const NamePair& pair : hugging_face::gpt2_names(model)) {
    const auto found = by_plain_name.find(pair.theirs);
    if (found == by_plain_name.end() ||
        files.file_of(found->second).shape(found->second) != pair.shape)
      fail(ExitCode::checkpoint, "{}: has no tensor {} {}; the config is of another model", from,
           pair.theirs, pair.shape.to_string());
    std::vector<float> values = files.read(found->second);
    if (pair.theirs == "wte.weight") check_tied_head(files, values);
    tensors.push_back(to_ours(pair, std::move(values)));
    by_plain_name.erase(found);
  }
  if (!by_plain_name.empty())
    fail(ExitCode::checkpoint, "{}: holds tensor {}, which the model of the config does not have",
         from, by_plain_name.begin()->second);
  save_weights(destination.to, tensors, {{"format", "trireme"}});
  fmt::print("{}: {} tensors\n", destination.to, tensors.size());
}

}  // namespace trireme
