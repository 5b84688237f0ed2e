// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/peft.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "launch/exchange/hf_files.h"
#include "launch/exchange/peft_settings.h"
#include "models/config.h"
#include "models/registry.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/checksum.h"
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
  Shape ours{};  // with the padding rows of a vocabulary behind it
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

// peft names modules as transformers' class for causal models does, whose prefix our names of GPT-2
// lack.
std::string peft_name(const std::string& hf, const ModelConfig& model) {
  const bool prefixed = family_of(model).exchange->plain_name("transformer." + hf, model) == hf;
  return (prefixed ? "transformer." : "") + hf;
}

std::string module_of(const std::string& tensor) {
  return tensor.substr(0, tensor.rfind('.'));
}

// Whether peft's modules_to_save chooses a tensor by this end of the name of a module around it.
bool is_within(const std::string& tensor, const std::string& end) {
  for (std::size_t dot = tensor.find('.'); dot != std::string::npos;
       dot = tensor.find('.', dot + 1))
    if (tensor.substr(0, dot).ends_with(end)) return true;
  return false;
}

// The tensors of a token table and the head that is tied to it; empty where no head is tied.
std::vector<std::string> tied_tensors(const ModelConfig& model) {
  const hugging_face::Exchange& exchange = *family_of(model).exchange;
  const bool untied = std::ranges::any_of(exchange.names(model), [&](const NamePair& pair) {
    return !pair.hf.empty() && pair.hf.front().name == exchange.head;
  });
  const bool language = traits_of(model).generates;
  if (untied || !language || exchange.head.empty()) return {};
  return {peft_name(std::string(exchange.tokens), model), std::string(exchange.head)};
}

std::vector<std::string> adapted_parts(const NamePair& pair) {
  if (pair.hf.size() == 3) return {"query", "key", "value"};
  if (pair.hf.size() == 2) return {"gate", "up"};
  return {""};
}

// Every module that may have factors.
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
      const Shape& shape = pair.hf[i].shape;
      modules.push_back({.name = module_of(peft_name(hf, config.model)),
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
    const std::string theirs = std::string(module_prefix) + peft_name(name, config.model);
    if (!chosen(pair.ours, theirs)) continue;
    if (pair.hf.size() > 1 || pair.transposed || pair.interleaved)
      fail(ExitCode::config,
           "{} ({} of peft): as it has another layout there, an adapter cannot hold it beside its "
           "factors; use the model merged with its adapter (`trireme checkpoint export` without "
           "--adapter, merge_and_unload() of peft)",
           pair.ours, theirs);
    const std::int64_t rows = shape[0] + pair.padding_rows;
    const Shape ours = pair.padding_rows == 0 ? shape : Shape{rows, shape[1]};
    saved[pair.ours] = {theirs, shape, ours};
  }
  return saved;
}

std::set<std::string> modules_to_save(const SavedTensors& saved) {
  std::set<std::string> modules;
  for (const auto& [ours, tensor] : saved)
    modules.insert(module_of(tensor.theirs.substr(module_prefix.size())));
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
  if (saved.empty()) return json.dump(2) + "\n";
  const std::set<std::string> modules = modules_to_save(saved);
  json["modules_to_save"] = modules;
  const auto tied = tied_tensors(config.model);
  if (!tied.empty() && modules.contains(module_of(tied.front())))
    json["ensure_weight_tying"] = true;
  return json.dump(2) + "\n";
}

// Refuses modules that the file has no tensors of, and copies of a table that is tied to the head.
void check_modules_to_save(const HfKeys& keys, const Config& config, const SafetensorsFile& file) {
  const std::vector<std::string> tied = tied_tensors(config.model);
  const bool tie = keys.flag("ensure_weight_tying", false);
  for (const std::string& item : peft_texts(keys, "modules_to_save")) {
    // peft lists both names of classifiers with any of them.
    bool known = item == "classifier" || item == "score";
    for (const std::string& tensor : tied) {
      if (!is_within(tensor, item)) continue;
      known = true;
      if (!tie)
        keys.refuse("modules_to_save",
                    "whose copy is not tied to the other of token table and head, as the base's "
                    "are; train with ensure_weight_tying=True, or merge by merge_and_unload(), "
                    "save with tie_word_embeddings=False and import the whole model");
    }
    for (const NamePair& pair : family_of(config.model).exchange->names(config.model)) {
      for (const auto& part : pair.hf) {
        const std::string name = peft_name(part.name, config.model);
        if (!is_within(name, item)) continue;
        known = true;
        if (!file.contains(std::string(module_prefix) + name))
          keys.refuse("modules_to_save", fmt::format("but the adapter holds no {}", name));
      }
    }
    if (!known) keys.refuse("modules_to_save", fmt::format("but the base has no {}", item));
  }
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
std::vector<Factor> expected_factors(const WeightFiles& files, const Config& config,
                                     const SavedTensors& saved, const HfKeys& keys,
                                     LoraConfig& lora) {
  const SafetensorsFile& file = files.file_of(files.names().front());
  const std::string& path = file.path();
  const std::vector<Module> modules = modules_of(config);
  std::set<std::string> found(file.names().begin(), file.names().end());
  if (const auto tied = tied_tensors(config.model); !tied.empty()) {  // may hold both
    const std::string prefix(module_prefix), tokens = prefix + tied[0], head = prefix + tied[1];
    if (found.contains(head) && found.contains(tokens) && files.read(head) == files.read(tokens))
      found.erase(head);
  }
  for (const auto& [ours, tensor] : saved) {
    found.erase(tensor.theirs);
    if (const Shape shape = file.shape(tensor.theirs); shape != tensor.shape)
      fail(ExitCode::checkpoint, "{}: {} is {}, but {} in this base; it is of another base", path,
           tensor.theirs, shape.to_string(), tensor.shape.to_string());
  }
  std::set<std::string> targets;
  for (const Module& module : modules) {
    const std::string factor = factors_of(module, lora.rank)[0].theirs;
    if (!found.contains(factor)) continue;
    require_chosen(keys, module.name, factor);
    targets.insert(module.target);
  }
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
    fail(ExitCode::checkpoint, "{}: {} is no factor of a layer that the base can adapt{}{}", path,
         found.empty() ? "nothing" : *found.begin(),
         modules.empty() ? ": it has none (model.family: llama and the like have)" : ", which are ",
         fmt::join(target_modules(modules, {}), ", "));
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
  // peft's models with a classifier expect it in the file, trained or not.
  const SavedTensors saved = saved_tensors(config, [&](const std::string& ours, const auto&) {
    return !rules.freezes(ours, true) || ours.starts_with("classifier.");
  });
  for (const auto& [ours, tensor] : saved) {
    tensors.push_back({tensor.theirs, tensor.shape});
    sources.emplace_back(&stored.tensors.at(ours), 0);
    const auto tied = tied_tensors(config.model);
    if (tied.empty() || tensor.theirs != std::string(module_prefix) + tied[0]) continue;
    tensors.push_back({std::string(module_prefix) + tied[1], tensor.shape});  // as peft writes both
    sources.push_back(sources.back());
  }
  for (const auto& [name, tensor] : stored.tensors)
    if (is_factor(name) && !used.contains(name))
      fail(ExitCode::config,
           "lora.targets: {} adapts a part of a matrix that peft adapts as a whole; train with qkv",
           name);
  for (const char* const name : {adapter_file, peft_config})
    refuse_to_replace(destination.to + "/" + name, destination);
  const OutputPlace made(destination.to);
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
  const nlohmann::json json = read_peft_json(from + "/" + peft_config);
  const HfKeys keys(json, from + "/" + peft_config);
  const WeightFiles files(path);
  const SafetensorsFile& file = files.file_of(files.names().front());
  LoraConfig lora = read_adapter_config(keys, json);
  static_cast<void>(modules_of(config));  // refuses families that peft does not know
  check_modules_to_save(keys, config, file);
  const SavedTensors saved = saved_tensors(
      config, [&](const auto&, const std::string& theirs) { return file.contains(theirs); });
  const std::vector<Factor> factors = expected_factors(files, config, saved, keys, lora);
  const StoredValues stored = base.values(ValueKind::model);
  const auto digest = file.metadata().find(digest_key);
  if (digest != file.metadata().end() && digest->second != base_digest(stored, saved))
    fail(ExitCode::checkpoint,
         "{}: was trained on other weights than those of {}; give its base by --base", path,
         base.path);
  for (const char* const name : {"/config.yaml", "/weights.safetensors"})
    refuse_to_replace(destination.to + name, destination);
  const OutputPlace made(destination.to);
  std::vector<PlannedTensor> tensors;
  std::map<std::string, std::string> theirs;
  for (const auto& [name, tensor] : stored.tensors)
    tensors.push_back({name, tensor.shape});
  for (const auto& [ours, tensor] : saved) {
    if (!stored.tensors.contains(ours)) tensors.push_back({ours, tensor.ours});
    theirs[ours] = tensor.theirs;
    lora.modules_to_save.push_back(ours);
  }
  for (const Factor& factor : factors) {
    tensors.push_back({factor.ours, factor.shape});
    theirs[factor.ours] = factor.theirs;
  }
  StoredReader reader(stored);
  const auto values_of = [&](std::size_t i) {
    const auto read = theirs.find(tensors[i].name);
    if (read == theirs.end()) return reader.whole(stored.tensors.find(tensors[i].name)->second);
    std::vector<float> values = files.read(read->second);
    values.resize(static_cast<std::size_t>(tensors[i].shape.count()));
    return values;
  };
  write_safetensors(destination.to + "/weights.safetensors", tensors, {{"format", "trireme"}},
                    values_of);
  write_file(destination.to + "/config.yaml",
             model_section(config.model) +
                 fmt::format("lora: {{rank: {}, alpha: {}, rslora: {}, dropout: {}, targets: [{}], "
                             "modules_to_save: [{}]}}\n",
                             lora.rank, lora.alpha, lora.rslora, lora.dropout,
                             fmt::join(lora.targets, ", "), fmt::join(lora.modules_to_save, ", ")),
             ExitCode::internal);
  take_along(text_files_of(base.path), destination.to);
  fmt::print("{}: weights.safetensors with {} factors for {}{}{}, config.yaml\n", destination.to,
             factors.size(), fmt::join(lora.targets, ", "), saved.empty() ? "" : " and ",
             fmt::join(lora.modules_to_save, ", "));
}

}  // namespace trireme
