// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/peft.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "launch/exchange/hf_files.h"
#include "models/config.h"
#include "models/registry.h"
#include "models/transformer/hf_keys.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/checksum.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/checkpoint/files/weight_files.h"

namespace trireme {
namespace {

using hugging_face::NamePair;

constexpr const char* adapter_file = "adapter_model.safetensors";
constexpr const char* digest_key = "trireme_base";
constexpr std::string_view module_prefix = "base_model.model.";

bool is_factor(std::string_view name) {
  return name.ends_with(".lora_a") || name.ends_with(".lora_b");
}

// Tensors that are trained as a whole beside the factors, our names to theirs: heads, mostly.
struct SavedTensor {
  std::string theirs;
  Shape shape{};
};
using SavedTensors = std::map<std::string, SavedTensor>;

// Of the weights that an adapter does not hold.
std::string base_digest(const StoredValues& stored, const SavedTensors& saved) {
  Checksum sum;
  StoredReader reader(stored);
  for (const auto& [name, tensor] : stored.tensors) {
    if (is_factor(name) || saved.contains(name)) continue;
    sum.update(std::as_bytes(std::span(name)));
    const std::vector<float> values = reader.whole(tensor);
    sum.update(std::as_bytes(std::span(values)));
  }
  return fmt::format("{:016x}", sum.value());
}

// A linear layer of peft: all of one of ours, or a part of it.
struct Module {
  std::string name;      // "model.layers.0.self_attn.q_proj"
  std::string layer;     // ours: "blocks.0.attention.qkv"
  std::string target;    // lora.targets of it: "qkv", "query"
  std::string part;      // "" or the target
  Shape shape{};         // (outputs, inputs)
  std::int64_t row = 0;  // of ours
};

std::vector<std::string> adapted_parts(const NamePair& pair) {
  if (pair.hf.size() == 3) return {"query", "key", "value"};
  if (pair.hf.size() == 2) return {"gate", "up"};
  return {""};
}

// Every module that may have factors. peft names modules as transformers' class for causal models
// does, whose prefix our names of GPT-2 lack.
std::vector<Module> modules_of(const Config& config) {
  const hugging_face::Exchange& exchange = *family_of(config.model).exchange;
  if (exchange.names == nullptr)
    fail(ExitCode::config, "model.family: {}: Hugging Face's libraries have no such model",
         config.model.family);
  const auto adapted = family_of(config.model).keys.limits(config).adapted;
  std::vector<Module> modules;
  for (const NamePair& pair : exchange.names(config.model)) {
    if (!pair.ours.ends_with(".weight")) continue;
    const std::string layer = pair.ours.substr(0, pair.ours.rfind('.'));
    const std::string role = layer.substr(layer.rfind('.') + 1);
    if (!layer.starts_with("blocks.") || std::ranges::find(adapted, role) == adapted.end())
      continue;
    const auto parts = adapted_parts(pair);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string& hf = pair.hf[i].name;
      const bool prefixed = exchange.plain_name("transformer." + hf, config.model) == hf;
      const Shape& shape = pair.hf[i].shape;
      modules.push_back({.name = (prefixed ? "transformer." : "") + hf.substr(0, hf.rfind('.')),
                         .layer = layer,
                         .target = parts[i].empty() ? role : parts[i],
                         .part = parts[i],
                         .shape = pair.transposed ? Shape{shape[1], shape[0]} : shape,
                         .row = row});
      row += shape[0];
    }
  }
  return modules;
}

// Last components that name exactly the adapted modules: as many as tell them from the others.
std::set<std::string> target_modules(const std::vector<Module>& all,
                                     const std::set<std::string>& adapted) {
  const auto tail = [](const std::string& name, int components) {
    std::size_t dot = name.size();
    for (int i = 0; i < components; ++i)
      dot = name.rfind('.', dot - 1);
    return name.substr(dot + 1);
  };
  std::set<std::string> targets;
  for (const std::string& name : adapted) {
    const bool clear = std::ranges::all_of(all, [&](const Module& other) {
      return adapted.contains(other.name) || tail(other.name, 1) != tail(name, 1);
    });
    targets.insert(tail(name, clear ? 1 : 2));
  }
  return targets;
}

// The tensors that `chosen` accepts by our name, or theirs with peft's prefix.
SavedTensors saved_tensors(const Config& config, const auto& chosen) {
  SavedTensors saved;
  for (const NamePair& pair : family_of(config.model).exchange->names(config.model)) {
    if (pair.hf.empty()) continue;
    const auto& [name, shape] = pair.hf.front();
    const std::string theirs = std::string(module_prefix) + name;
    if (!chosen(pair.ours, theirs)) continue;
    if (pair.hf.size() > 1 || pair.transposed || pair.interleaved || pair.padding_rows > 0)
      fail(ExitCode::config,
           "{}: an adapter cannot hold it beside its factors; export the whole model", pair.ours);
    saved[pair.ours] = {theirs, shape};
  }
  return saved;
}

std::set<std::string> modules_to_save(const SavedTensors& saved) {
  std::set<std::string> modules;
  for (const auto& [ours, tensor] : saved) {
    const std::string name = tensor.theirs.substr(module_prefix.size());
    modules.insert(name.substr(0, name.rfind('.')));
  }
  return modules;
}

std::string adapter_text(const Config& config, const std::set<std::string>& targets,
                         const SavedTensors& saved, bool conv1d, const std::string& base) {
  const std::string model = family_of(config.model).exchange->config_json(config.model);
  const bool of_tokens = model.find("ForTokenClassification") != std::string::npos;
  const bool of_texts = model.find("ForSequenceClassification") != std::string::npos;
  const LoraConfig& lora = config.lora;
  nlohmann::ordered_json json{{"peft_type", "LORA"},
                              {"task_type", of_tokens  ? "TOKEN_CLS"
                                            : of_texts ? "SEQ_CLS"
                                                       : "CAUSAL_LM"},
                              {"base_model_name_or_path", nullptr},
                              {"inference_mode", true},
                              {"r", lora.rank},
                              {"lora_alpha", lora.alpha},
                              {"lora_dropout", lora.dropout},
                              {"use_rslora", lora.rslora},
                              {"target_modules", targets},
                              {"fan_in_fan_out", conv1d},
                              {"bias", "none"},
                              {"modules_to_save", nullptr},
                              {"init_lora_weights", true}};
  if (!base.empty()) json["base_model_name_or_path"] = base;
  if (!saved.empty()) json["modules_to_save"] = modules_to_save(saved);
  return json.dump(2) + "\n";
}

// Settings that say nothing of what the adapter computes, or that its tensors show.
constexpr std::array<std::string_view, 23> known_settings = {"peft_type",
                                                             "task_type",
                                                             "auto_mapping",
                                                             "peft_version",
                                                             "base_model_name_or_path",
                                                             "revision",
                                                             "inference_mode",
                                                             "r",
                                                             "target_modules",
                                                             "exclude_modules",
                                                             "lora_alpha",
                                                             "lora_dropout",
                                                             "fan_in_fan_out",
                                                             "use_rslora",
                                                             "layers_to_transform",
                                                             "layers_pattern",
                                                             "megatron_core",
                                                             "eva_config",
                                                             "qalora_group_size",
                                                             "runtime_config",
                                                             "init_lora_weights",
                                                             "bias",
                                                             "ensure_weight_tying"};

bool is_neutral(const nlohmann::json& value) {
  return value.is_null() || value == false ||
         ((value.is_object() || value.is_array()) && value.empty());
}

// `saves`: the file holds tensors beside the factors.
LoraConfig read_adapter_config(const std::string& path, bool saves) {
  constexpr std::size_t config_limit = 1 << 20;
  const auto text = read_file_if_exists(path, config_limit, ExitCode::config);
  if (!text) fail(ExitCode::config, "{}: does not exist; it describes the adapter", path);
  const auto json = json_or_discarded<nlohmann::json>(*text);
  if (!json.is_object()) fail(ExitCode::config, "{}: is not a JSON object", path);
  const HfKeys keys(json, path);
  if (keys.text("peft_type") != "LORA") keys.refuse("peft_type", "only LORA is supported");
  if (keys.text("bias", "none") != "none")
    keys.refuse("bias", "which is not supported; train the adapter with bias=\"none\"");
  for (const auto& [key, value] : json.items()) {
    const bool known = std::ranges::find(known_settings, key) != known_settings.end() ||
                       (saves && key == "modules_to_save");
    if (!known && !is_neutral(value))
      keys.refuse(key,
                  "which is not supported; merge the adapter by merge_and_unload() and import the "
                  "whole model");
  }
  const nlohmann::json* const init = keys.find("init_lora_weights");
  if (init != nullptr && init->is_string() && *init != "gaussian" && *init != "orthogonal" &&
      *init != "eva")
    keys.refuse("init_lora_weights",
                "which changes the base: save with path_initial_model_for_weight_conversion, or "
                "import the merged model");
  LoraConfig lora{.rank = keys.size("r"),
                  .alpha = keys.number("lora_alpha"),
                  .rslora = keys.flag("use_rslora", false),
                  .dropout = keys.number("lora_dropout", 0.0),
                  .targets = {}};
  if (lora.rank < 1 || lora.alpha <= 0)
    fail(ExitCode::config, "{}: r: {} and lora_alpha: {} must be above 0", path, lora.rank,
         lora.alpha);
  return lora;
}

// One of our factors of a module, and where peft has it.
struct Factor {
  std::string ours, theirs;
  Shape shape{};
};

std::vector<Factor> factors_of(const Module& module, std::int64_t rank) {
  const std::string ours = module.layer + (module.part.empty() ? "" : "." + module.part) + ".lora_";
  const std::string theirs = std::string(module_prefix) + module.name + ".lora_";
  return {{ours + "a", theirs + "A.weight", {rank, module.shape[1]}},
          {ours + "b", theirs + "B.weight", {module.shape[0], rank}}};
}

// The factors in peft's file, checked against the modules of the base; completes lora.targets.
std::vector<Factor> expected_factors(const std::string& path, const SafetensorsFile& file,
                                     const std::vector<Module>& modules, const SavedTensors& saved,
                                     LoraConfig& lora) {
  std::set<std::string> found(file.names().begin(), file.names().end());
  for (const auto& [ours, tensor] : saved) {
    found.erase(tensor.theirs);
    if (const Shape shape = file.shape(tensor.theirs); shape != tensor.shape)
      fail(ExitCode::checkpoint, "{}: {} is {}, but {} in this base; it is of another base", path,
           tensor.theirs, shape.to_string(), tensor.shape.to_string());
  }
  std::set<std::string> targets;
  for (const Module& module : modules)
    if (found.contains(factors_of(module, lora.rank)[0].theirs)) targets.insert(module.target);
  std::vector<Factor> factors;
  for (const Module& module : modules) {
    if (!targets.contains(module.target)) continue;
    for (const Factor& factor : factors_of(module, lora.rank)) {
      if (found.erase(factor.theirs) == 0)
        fail(ExitCode::checkpoint, "{}: has no {}, but other blocks have; each needs them", path,
             factor.theirs);
      if (const Shape shape = file.shape(factor.theirs); shape != factor.shape)
        fail(ExitCode::checkpoint,
             "{}: {} is {}, but {} with this base and r; it is of another base", path,
             factor.theirs, shape.to_string(), factor.shape.to_string());
      factors.push_back(factor);
    }
  }
  if (!found.empty() || targets.empty())
    fail(ExitCode::checkpoint,
         "{}: {} is no factor of a layer that the base can adapt; those are {}", path,
         found.empty() ? "nothing" : *found.begin(), fmt::join(target_modules(modules, {}), ", "));
  lora.targets.assign(targets.begin(), targets.end());
  return factors;
}

}  // namespace

void export_adapter(const RunState& from, const Config& config, const Destination& destination,
                    const std::string& base) {
  const StoredValues stored = from.values(ValueKind::model);
  if (config.lora.rank == 0 || std::ranges::none_of(stored.tensors, [](const auto& entry) {
        return is_factor(entry.first);
      }))
    fail(ExitCode::config, "{}: holds no adapters to export; leave out --adapter", from.path);
  const std::vector<Module> modules = modules_of(config);
  std::vector<PlannedTensor> tensors;
  std::vector<std::pair<const StoredTensor*, std::int64_t>> sources;  // and the first element
  std::set<std::string> adapted, used;
  for (const Module& module : modules) {
    const std::vector<Factor> factors = factors_of(module, config.lora.rank);
    for (const Factor& factor : factors) {
      const char kind = factor.ours.back();
      auto source = stored.tensors.find(factor.ours);
      std::int64_t first = 0;
      if (source == stored.tensors.end()) {  // one pair of factors for all parts
        source = stored.tensors.find(module.layer + ".lora_" + kind);
        if (kind == 'b') first = module.row * config.lora.rank;
      }
      if (source == stored.tensors.end()) continue;
      used.insert(source->first);
      adapted.insert(module.name);
      tensors.push_back({factor.theirs, factor.shape});
      sources.emplace_back(&source->second, first);
    }
  }
  const ParamRules rules = param_rules(config);
  const SavedTensors saved = saved_tensors(
      config, [&](const std::string& ours, const auto&) { return !rules.freezes(ours, true); });
  for (const auto& [ours, tensor] : saved) {
    tensors.push_back({tensor.theirs, tensor.shape});
    sources.emplace_back(&stored.tensors.at(ours), 0);
  }
  for (const auto& [name, tensor] : stored.tensors)
    if (is_factor(name) && !used.contains(name))
      fail(ExitCode::config,
           "lora.targets: {} adapts a part of a matrix that peft adapts as a whole; train with qkv",
           name);
  for (const char* const name : {adapter_file, peft_config})
    refuse_to_replace(destination.to + "/" + name, destination);
  make_directory(destination.to);
  StoredReader reader(stored);
  write_safetensors(destination.to + "/" + adapter_file, tensors,
                    {{"format", "pt"}, {digest_key, base_digest(stored, saved)}},
                    [&](std::size_t i) {
                      const std::vector<float> all = reader.whole(*sources[i].first);
                      const auto begin = all.begin() + sources[i].second;
                      return std::vector<float>(begin, begin + tensors[i].shape.count());
                    });
  write_file(destination.to + "/" + peft_config,
             adapter_text(config, target_modules(modules, adapted), saved,
                          config.model.family == "gpt2", base),
             ExitCode::internal);
  fmt::print("from  {}\n{}: {} tensors in {}, {}\n", from.describe(), destination.to,
             tensors.size(), adapter_file, peft_config);
}

void import_adapter(const std::string& from, const RunState& base, const Config& config,
                    const Destination& destination) {
  if (config.lora.rank > 0)
    fail(ExitCode::config,
         "--base: {} holds adapters; merge them by `trireme checkpoint export`, "
         "and import the result as the base",
         base.path);
  const std::string path = from + "/" + adapter_file;
  if (!std::filesystem::exists(path))
    fail(ExitCode::config, "{}: does not exist; save the adapter with safe_serialization=True",
         path);
  const WeightFiles files(path);
  const SafetensorsFile& file = files.file_of(files.names().front());
  const SavedTensors saved = saved_tensors(
      config, [&](const auto&, const std::string& theirs) { return file.contains(theirs); });
  LoraConfig lora = read_adapter_config(from + "/" + peft_config, !saved.empty());
  const std::vector<Factor> factors = expected_factors(path, file, modules_of(config), saved, lora);
  const StoredValues stored = base.values(ValueKind::model);
  const auto digest = file.metadata().find(digest_key);
  if (digest != file.metadata().end() && digest->second != base_digest(stored, saved))
    fail(ExitCode::checkpoint,
         "{}: was trained on other weights than those of {}; give its base by --base", path,
         base.path);
  for (const char* const name : {"/config.yaml", "/weights.safetensors"})
    refuse_to_replace(destination.to + name, destination);
  make_directory(destination.to);
  std::vector<PlannedTensor> tensors;
  std::map<std::string, std::string> theirs;
  for (const auto& [name, tensor] : stored.tensors)
    tensors.push_back({name, tensor.shape});
  for (const auto& [ours, tensor] : saved) {
    if (!stored.tensors.contains(ours)) tensors.push_back({ours, tensor.shape});
    theirs[ours] = tensor.theirs;
  }
  for (const Factor& factor : factors) {
    tensors.push_back({factor.ours, factor.shape});
    theirs[factor.ours] = factor.theirs;
  }
  StoredReader reader(stored);
  write_safetensors(destination.to + "/weights.safetensors", tensors, {{"format", "trireme"}},
                    [&](std::size_t i) {
                      const auto factor = theirs.find(tensors[i].name);
                      return factor != theirs.end()
                                 ? files.read(factor->second)
                                 : reader.whole(stored.tensors.find(tensors[i].name)->second);
                    });
  write_file(
      destination.to + "/config.yaml",
      model_section(config.model) +
          fmt::format("lora: {{rank: {}, alpha: {}, rslora: {}, dropout: {}, targets: [{}]}}\n",
                      lora.rank, lora.alpha, lora.rslora, lora.dropout,
                      fmt::join(lora.targets, ", ")),
      ExitCode::internal);
  take_along(text_files_of(base.path), destination.to);
  fmt::print("{}: weights.safetensors with {} factors for {}, config.yaml\n", destination.to,
             factors.size(), fmt::join(lora.targets, ", "));
}

}  // namespace trireme
