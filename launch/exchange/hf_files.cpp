// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/hf_files.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/tokenizer/tokenizer.h"
#include "launch/exchange/forward_check.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::array text_files = {
    "tokenizer.json",          "tokenizer.model",     "tokenizer_config.json",
    "special_tokens_map.json", "vocab.json",          "merges.txt",
    "added_tokens.json",       "chat_template.jinja", "chat_template.json",
    "generation_config.json"};
constexpr std::uint64_t text_file_limit = std::uint64_t{1} << 28;
constexpr const char* kept_config = "hugging_face_config.json";
constexpr std::uint64_t config_limit = std::uint64_t{1} << 24;
constexpr const char* whole_file = "model.safetensors";
constexpr const char* index_file = "model.safetensors.index.json";

struct FileOfWeights {
  std::size_t first = 0, count = 0;
  std::uint64_t bytes = 0;
};

std::uint64_t bytes_of(const PlannedTensor& tensor) {
  return static_cast<std::uint64_t>(tensor.shape.count()) * size_of(tensor.dtype());
}

std::vector<FileOfWeights> shards_of(const std::vector<PlannedTensor>& tensors,
                                     std::uint64_t limit) {
  std::vector<FileOfWeights> shards;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t bytes = bytes_of(tensors[i]);
    if (shards.empty() || shards.back().bytes + bytes > limit) shards.push_back({.first = i});
    ++shards.back().count;
    shards.back().bytes += bytes;
  }
  return shards;
}

}  // namespace

std::vector<std::string> copy_text_files(const std::string& from, const std::string& to) {
  std::vector<std::string> copied;
  for (const char* const name : text_files) {
    const auto text = read_file_if_exists(from + "/" + name, text_file_limit, ExitCode::config);
    if (!text) continue;
    write_file(to + "/" + name, *text, ExitCode::internal);
    copied.emplace_back(name);
  }
  return copied;
}

void keep_hf_config(const std::string& path, const std::string& run) {
  if (const auto text = read_file_if_exists(path, config_limit, ExitCode::config))
    write_file(run + "/" + kept_config, *text, ExitCode::internal);
}

void take_along(const std::string& from_run, const std::string& to_run) {
  static_cast<void>(copy_text_files(from_run, to_run));
  keep_hf_config(from_run + "/" + kept_config, to_run);
}

std::string described(const std::string& config_json, const std::string& run,
                      const std::vector<std::string>& classes, DType dtype) {
  using Json = nlohmann::ordered_json;
  auto config = parse_json<Json>(config_json);
  const auto text = read_file_if_exists(run + "/" + kept_config, config_limit, ExitCode::config);
  const Json kept = text ? json_or_discarded<Json>(*text) : Json::object();
  const auto known = [&](const char* key) { return kept.is_object() && kept.contains(key); };
  for (const char* const key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (known(key) && config.contains(key)) config[key] = kept[key];
  constexpr const char* context = "max_position_embeddings";
  const bool rotary = config.contains("rope_theta");
  if (rotary && known(context) && kept[context].is_number_integer() &&
      kept[context] > config[context])
    config[context] = kept[context];
  if (config.contains("id2label")) {
    Json& names = config["id2label"];
    if (known("id2label") && kept["id2label"].size() == names.size()) names = kept["id2label"];
    for (std::size_t i = 0; i < classes.size() && classes.size() == names.size(); ++i)
      names[fmt::to_string(i)] = classes[i];
    Json numbers = Json::object();
    for (const auto& [number, name] : names.items())
      if (name.is_string()) numbers[name.get<std::string>()] = std::stoll(number);
    config["label2id"] = numbers;
  }
  config["torch_dtype"] = dtype == DType::bf16  ? "bfloat16"
                          : dtype == DType::f16 ? "float16"
                                                : "float32";
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string check_tokenizer(const std::string& directory, std::int64_t vocabulary) {
  std::string path = directory + "/tokenizer.json";
  if (!fs::exists(path)) path = directory + "/tokenizer.model";
  if (!fs::exists(path)) return {};
  std::uint32_t ids = 0;
  try {
    ids = Tokenizer(path).vocabulary();
  } catch (const Error& error) {
    return error.what();
  }
  if (ids > vocabulary)
    fail(ExitCode::config,
         "{}: has ids up to {}, but the model has a vocabulary of {}; it is from another model",
         path, ids - 1, vocabulary);
  return {};
}

void remove_hf_weights(const std::string& directory) {
  std::error_code ignored;
  for (const char* const name : {whole_file, index_file, expectations_file})
    fs::remove(directory + "/" + name, ignored);
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("model-") && name.ends_with(".safetensors"))
      fs::remove(entry.path(), ignored);
  }
}

std::size_t write_hf_weights(const std::string& directory,
                             const std::vector<PlannedTensor>& tensors, std::uint64_t shard_bytes,
                             const std::function<std::vector<float>(std::size_t)>& values) {
  const std::vector<FileOfWeights> shards = shards_of(tensors, shard_bytes);
  nlohmann::ordered_json map;
  std::uint64_t total = 0;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const FileOfWeights& shard = shards[s];
    const std::string name =
        shards.size() == 1 ? std::string(whole_file)
                           : fmt::format("model-{:05}-of-{:05}.safetensors", s + 1, shards.size());
    write_safetensors(directory + "/" + name, std::span(tensors).subspan(shard.first, shard.count),
                      {{"format", "pt"}}, [&](std::size_t i) { return values(shard.first + i); });
    total += shard.bytes;
    for (std::size_t i = 0; i < shard.count; ++i)
      map[tensors[shard.first + i].name] = name;
  }
  if (shards.size() > 1) {
    nlohmann::ordered_json index;
    index["metadata"]["total_size"] = total;
    index["weight_map"] = map;
    write_file(directory + "/" + index_file, index.dump(2) + "\n", ExitCode::internal);
  }
  return shards.size();
}

}  // namespace trireme
