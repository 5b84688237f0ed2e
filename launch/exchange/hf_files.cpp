// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/hf_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "data/shard/shard_set.h"
#include "data/tokenizer/tokenizer.h"
#include "launch/engine/state/data_record.h"
#include "launch/exchange/forward_check.h"
#include "launch/text/continuation.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// By parts and ends of their names: files of tokenizers of any kind, whether they can be used here
// or not, chat templates and generation settings.
bool is_text_file(const std::string& name) {
  constexpr std::array parts = {"tokeniz",       "vocab",  "special_tokens",   "added_tokens",
                                "chat_template", "merges", "generation_config"};
  constexpr std::array ends = {".model", ".spm",      ".bpe",     ".codes",
                               ".jinja", ".tiktoken", "dict.txt", "normalizer.json"};
  return std::ranges::any_of(parts, [&](const char* it) { return name.find(it) != name.npos; }) ||
         std::ranges::any_of(ends, [&](const char* it) { return name.ends_with(it); });
}
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

bool is_special(const std::string& tokenizer, std::uint32_t id) {
  if (!tokenizer.ends_with(".json")) return false;
  const auto file = json_or_discarded(read_whole_file(tokenizer, text_file_limit, ExitCode::data));
  const auto tokens = file.is_object() ? file.find("added_tokens") : file.end();
  return tokens != file.end() && tokens->is_array() &&
         std::ranges::any_of(*tokens, [&](const nlohmann::json& token) {
           return token.value("id", std::uint32_t{0}) == id && token.value("special", false);
         });
}

// The last target of each of the first documents of a shard, if it is the same; nothing without a
// loss mask.
std::optional<std::uint32_t> end_of_answers(const Shard& shard) {
  const ShardHeader& header = shard.header;
  constexpr std::uint64_t most = 256;
  // The last may go on in another shard.
  const std::uint64_t whole = header.documents - (header.shard_count > 1 ? 1 : 0);
  if (!header.counted || whole == 0) return {};
  std::vector<std::uint64_t> starts(std::min(most, whole) + 1);
  const ShardSet set({.paths = {shard.path}, .complete = false});
  set.read_index(0, 0, std::as_writable_bytes(std::span(starts)), {});
  std::vector<std::uint8_t> mask((starts.back() + 7) / 8);
  set.read_mask(0, 0, std::as_writable_bytes(std::span(mask)), {});
  std::optional<std::uint32_t> end;
  for (std::size_t document = 0; document + 1 < starts.size(); ++document) {
    std::uint64_t at = starts[document + 1];
    while (at > starts[document] && (mask[(at - 1) / 8] >> (at - 1) % 8 & 1) == 0)
      --at;
    if (at == starts[document]) continue;
    std::uint32_t token = 0;  // little-endian, as the file
    set.read(0, (at - 1) * size_of(header.dtype),
             std::as_writable_bytes(std::span(&token, 1)).first(size_of(header.dtype)), {});
    if (end && end != token) return {};
    end = token;
  }
  return end;
}

}  // namespace

std::vector<std::string> copy_text_files(const std::string& from, const std::string& to) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(from, ignored)) {
    const std::string name = entry.path().filename().string();
    if (is_text_file(name) && entry.is_regular_file(ignored)) names.push_back(name);
  }
  std::ranges::sort(names);
  for (const std::string& name : names)
    write_file(to + "/" + name,
               read_whole_file(from + "/" + name, text_file_limit, ExitCode::config),
               ExitCode::internal);
  return names;
}

void keep_hf_config(const std::string& path, const std::string& run) {
  if (const auto text = read_file_if_exists(path, config_limit, ExitCode::config))
    write_file(run + "/" + kept_config, *text, ExitCode::internal);
}

void take_along(const std::string& from_run, const std::string& to_run) {
  static_cast<void>(copy_text_files(from_run, to_run));
  keep_hf_config(from_run + "/" + kept_config, to_run);
}

void keep_end_of_answers(const std::string& run, const Shard& shard) {
  const auto end = end_of_answers(shard);
  const std::string tokenizer = tokenizer_of_run(run), path = run + "/generation_config.json";
  if (!end || tokenizer.empty() || !is_special(tokenizer, *end)) return;
  const auto known = end_tokens_of_run(run);
  if (std::ranges::find(known, static_cast<std::int32_t>(*end)) != known.end()) return;
  const auto text = read_file_if_exists(path, text_file_limit, ExitCode::config);
  auto settings = text ? parse_json<nlohmann::ordered_json>(*text) : nlohmann::ordered_json();
  settings.erase("_from_model_config");
  settings["eos_token_id"] = {*end};
  for (const std::int32_t id : known)
    settings["eos_token_id"].push_back(id);
  write_file(path, settings.dump(2) + "\n", ExitCode::internal);
  log::get("train").info("the answers end with the token {}: {} has eos_token_id: {}", *end, path,
                         settings["eos_token_id"].dump());
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
  // Training may have added the end of its answers (end_tokens.h).
  if (const auto ends = end_tokens_of_run(run); config.contains("eos_token_id") && !ends.empty()) {
    const Json old = config["eos_token_id"].is_array() ? config["eos_token_id"]
                                                       : Json::array({config["eos_token_id"]});
    const bool known = std::ranges::find(old, Json(ends[0])) != old.end();
    if (!known) config["eos_token_id"] = ends;
    if (!known)
      fmt::print("config.json: eos_token_id: {}, by generation_config.json\n", Json(ends).dump());
  }
  // Dropout and losses of training that models here lack or hold otherwise.
  for (const char* const key : {"attention_probs_dropout_prob", "attn_pdrop", "attention_dropout",
                                "output_router_logits", "router_aux_loss_coef"}) {
    if (known(key)) config[key] = kept[key];
    if (text && !known(key)) config.erase(key);  // so that it has its default again
  }
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
