// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/weight_exchange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <memory>
#include <ranges>
#include <span>

#include "launch/engine/state/data_record.h"
#include "launch/exchange/forward_check.h"
#include "launch/exchange/hf_config.h"
#include "launch/exchange/hf_files.h"
#include "launch/exchange/hf_weights.h"
#include "launch/text/continuation.h"
#include "models/config.h"
#include "models/registry.h"
#include "models/resnet/resnet.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/files/weight_files.h"
#include "runtime/config/param_rules.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using hugging_face::HfTensor;
using hugging_face::NamePair;

std::string directory_of(const std::string& weights) {
  return fs::is_directory(weights) ? weights : parent_directory(weights);
}

constexpr const char* hf_config = "config.json";

}  // namespace

void refuse_to_replace(const std::string& path, const Destination& destination) {
  std::error_code error;
  if (destination.force || !fs::exists(path, error)) return;
  fail(ExitCode::config, "--out: {} exists; give another place, or --force to replace it", path);
}

OutputPlace::OutputPlace(const std::string& path) {
  std::error_code error;
  for (fs::path part = fs::absolute(path / fs::path()).parent_path(); !fs::exists(part, error);
       part = part.parent_path())
    made_ = part;
  fs::create_directories(path, error);
  if (error)
    fail(code_of_failed_write(error.value(), ExitCode::config),
         "--out: cannot make the directory {}: {}; give another place", path, error.message());
}

OutputPlace::~OutputPlace() {
  std::error_code ignored;
  if (!made_.empty() && std::uncaught_exceptions() > errors_) fs::remove_all(made_, ignored);
}

std::string text_files_of(const std::string& state) {
  fs::path directory = fs::absolute(directory_of(state)).lexically_normal();
  for (int level = 0; level < 3; ++level, directory = directory.parent_path()) {
    if (fs::exists(directory / "config.yaml")) return directory.string();
  }
  return directory_of(state);
}

namespace {

const hugging_face::Exchange& exchange_of(const ModelConfig& model) {
  const Family& family = family_of(model);
  if (family.exchange->names == nullptr)
    fail(
        ExitCode::config,
        "model.family: {}: Hugging Face's libraries have no such model; weights.safetensors in the "
        "run's directory has all tensors under Trireme's names",
        family.keys.name);
  return *family.exchange;
}

std::vector<std::string> counters_of(const ModelConfig& model) {
  const auto counters = exchange_of(model).counters;
  return counters == nullptr ? std::vector<std::string>{} : counters(model);
}

// For imported weights: the value of their batch counters.
constexpr const char* batches_key = "batches_tracked";

// Batches seen by the running statistics: one per step.
std::int64_t batches_behind(const RunState& from) {
  if (!from.path.ends_with(".safetensors")) return from.step.value_or(0);
  const SafetensorsFile file(from.path);
  const auto told = file.metadata().find(batches_key);
  if (told == file.metadata().end()) return from.step.value_or(0);
  const std::string& text = told->second;
  std::int64_t batches = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), batches);
  if (error != std::errc() || end != text.data() + text.size() || batches < 0)
    fail(ExitCode::checkpoint, "{}: its metadata's {} is '{}', not a number", from.path,
         batches_key, text);
  return batches;
}

// The shape of our tensor, from Hugging Face's.
Shape our_shape(const NamePair& pair) {
  if (pair.our_shape.rank() > 0) return pair.our_shape;
  const Shape& first = pair.hf.front().shape;
  if (pair.filters) return {first[0], first[2], first[3], first[1]};
  if (pair.transposed)
    return first.rank() == 3 ? Shape{first[0], first[2], first[1]} : Shape{first[1], first[0]};
  std::int64_t rows = pair.padding_rows;
  for (const HfTensor& part : pair.hf)
    rows += part.shape[0];
  return first.rank() == 1 ? Shape{rows} : Shape{rows, first[1]};
}

// Matrices (rows, columns) of runs of values, which lie one after another in a tensor.
struct Matrices {
  std::int64_t rows, columns, run = 1;
};

// (rows, columns, run) -> (columns, rows, run), for each matrix.
std::vector<float> transposed(const std::vector<float>& from, const Matrices& as) {
  std::vector<float> to(from.size());
  constexpr std::int64_t together = 16;  // rows, so that whole cache lines are written
  const std::int64_t count = as.rows * as.columns * as.run;
  for (auto first = from.begin(); first != from.end(); first += count) {
    const auto begin = to.begin() + (first - from.begin());
    for (std::int64_t at = 0; at < as.rows; at += together) {
      for (std::int64_t c = 0; c < as.columns; ++c) {
        for (std::int64_t r = at; r < std::min(as.rows, at + together); ++r)
          std::copy_n(first + (r * as.columns + c) * as.run, as.run,
                      begin + (c * as.rows + r) * as.run);
      }
    }
  }
  return to;
}

// What makes our tensor of Hugging Face's, in this order.
std::vector<Matrices> interleaved(const NamePair& pair, const Shape& hf) {
  if (pair.filters) return {{hf[1], hf[2] * hf[3]}};
  std::vector<Matrices> turns;
  if (pair.transposed) turns.push_back({hf[hf.rank() - 2], hf[hf.rank() - 1]});
  if (pair.interleaved) {
    const Shape ours = our_shape(pair);  // (experts, outputs) or (experts, outputs, inputs)
    turns.push_back({ours[1] / 2, 2, ours.count() / (ours[0] * ours[1])});
  }
  return turns;
}

std::vector<float> turned_to_ours(std::vector<float> values, const NamePair& pair,
                                  const Shape& hf) {
  for (const Matrices& turn : interleaved(pair, hf))
    values = transposed(values, turn);
  return values;
}

std::vector<float> turned_to_theirs(std::vector<float> values, const NamePair& pair,
                                    const Shape& hf) {
  const std::vector<Matrices> turns = interleaved(pair, hf);
  for (const auto& [rows, columns, run] : std::views::reverse(turns))
    values = transposed(values, {columns, rows, run});
  return values;
}

std::vector<float> to_ours(const NamePair& pair, const HfWeights& weights) {
  std::vector<float> values;
  for (const HfTensor& part : weights.parts(pair)) {
    const std::vector<float> own = turned_to_ours(weights.read(part), pair, part.shape);
    values.insert(values.end(), own.begin(), own.end());
  }
  values.resize(static_cast<std::size_t>(our_shape(pair).count()), 0.0F);
  return values;
}

// The first row of a part of `rows` in a weight of `all`: the second and third part of three, and
// both of two, have as many.
std::int64_t first_row(std::string_view part, std::int64_t rows, std::int64_t all) {
  if (part == ".key") return all - 2 * rows;
  return part == ".value" || part == ".up" ? all - rows : 0;
}

// Reads our weights merged with their adapters: W + scale B A.
class MergedReader {
 public:
  MergedReader(const RunState& from, const StoredValues& stored, const LoraConfig& lora)
      : from_(from), stored_(stored), lora_(lora), reader_(stored) {
    bool adapted = false;
    for (const auto& [name, tensor] : stored.tensors)
      adapted = adapted || name.ends_with(".lora_a");
    if (adapted && lora.rank == 0)
      fail(ExitCode::config,
           "{}: holds adapters, but the config has lora.rank: 0; give the --config of the run that "
           "trained them",
           from.path);
    if (!adapted && lora.rank > 0)
      fail(ExitCode::config,
           "{}: holds no adapters, but the config has lora.rank: {}; give the --config of the run "
           "that wrote these weights",
           from.path, lora.rank);
  }

  // Valid until another name is read.
  [[nodiscard]] const std::vector<float>& whole(const std::string& name) {
    if (name != last_) values_ = read(name);
    last_ = name;
    return values_;
  }

 private:
  [[nodiscard]] std::vector<float> read(const std::string& name) {
    std::vector<float> values = reader_.whole(stored_.tensors.find(name)->second);
    const std::string layer = name.substr(0, name.rfind('.'));
    if (!name.ends_with(".weight")) return values;
    const Shape& shape = stored_.tensors.find(name)->second.shape;
    for (const std::string_view part : {"", ".query", ".key", ".value", ".gate", ".up"}) {
      const std::string factors = layer + std::string(part) + ".lora_";
      const auto a = stored_.tensors.find(factors + "a"), b = stored_.tensors.find(factors + "b");
      if (a == stored_.tensors.end()) continue;
      const Shape& own = b == stored_.tensors.end() ? Shape{} : b->second.shape;
      if (own.rank() != 2 || own[1] != lora_.rank || own[0] > shape[0] ||
          (part.empty() && own[0] != shape[0]) || a->second.shape != Shape{lora_.rank, shape[1]})
        fail(ExitCode::checkpoint, "{}: {} is not an adapter of rank {} for {} {}", from_.path,
             a->first, lora_.rank, name, shape.to_string());
      add_product(values, reader_.whole(b->second), reader_.whole(a->second),
                  first_row(part, own[0], shape[0]), shape[1]);
    }
    return values;
  }
  // In double, so the sum is rounded once.
  void add_product(std::vector<float>& values, const std::vector<float>& b,
                   const std::vector<float>& a, std::int64_t first, std::int64_t width) const {
    const auto columns = static_cast<std::size_t>(width);
    float* const to = values.data() + first * width;
    const auto rank = static_cast<std::size_t>(lora_.rank);
    const double scale = lora_.scale();
    std::vector<double> row(columns);
    for (std::size_t r = 0; r < b.size() / rank; ++r) {
      std::ranges::fill(row, 0.0);
      for (std::size_t k = 0; k < rank; ++k) {
        const double factor = scale * static_cast<double>(b[r * rank + k]);
        for (std::size_t c = 0; c < columns; ++c)
          row[c] += factor * static_cast<double>(a[k * columns + c]);
      }
      for (std::size_t c = 0; c < columns; ++c)
        to[r * columns + c] = static_cast<float>(static_cast<double>(to[r * columns + c]) + row[c]);
    }
  }

  const RunState& from_;
  const StoredValues& stored_;
  LoraConfig lora_;
  StoredReader reader_;
  std::string last_;
  std::vector<float> values_;  // of last_
};

// The part of our tensor that is one Hugging Face tensor.
struct Part {
  const NamePair* pair;
  std::int64_t first;  // element
};

// Checks the run directory to make, before any output. Returns unsupported parts of the tokenizer.
std::string check_run(const std::string& from, const ModelConfig& model,
                      const Destination& destination) {
  if (fs::exists(destination.to + "/metrics.jsonl"))
    fail(ExitCode::config, "--out: {} is a run that has trained; give another place",
         destination.to);
  for (const char* const name : {"/config.yaml", "/weights.safetensors"})
    refuse_to_replace(destination.to + name, destination);
  static_cast<void>(end_tokens_of_run(directory_of(from)));  // refuses those that are broken
  return check_tokenizer(directory_of(from), traits_of(model).vocabulary);
}

// Removes weights that fail the check.
void keep_if_as_expected(const Expectations& expected, const ModelConfig& model,
                         const std::string& file) {
  try {
    check_forward(expected, model, {.path = file});
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove(file, ignored);
    throw;
  }
}

void finish_run(const std::string& from, const ModelConfig& model, const std::string& to,
                const std::string& pictures, const std::string& unread) {
  const auto copied = copy_text_files(directory_of(from), to);
  keep_hf_config(directory_of(from) + "/" + hf_config, to);
  write_file(to + "/config.yaml", model_section(model) + pictures, ExitCode::internal);
  fmt::print("{}: config.yaml{}{}\n", to, copied.empty() ? "" : ", ", fmt::join(copied, ", "));
  if (!unread.empty()) fmt::print("the tokenizer is kept, but cannot be used here: {}\n", unread);
}

// "'classifier.*'" for tensors of one layer, else their names.
std::string patterns_of(const std::vector<std::string>& names) {
  const std::string layer = names.front().substr(0, names.front().find('.') + 1);
  const bool alike =
      std::ranges::all_of(names, [&](const std::string& name) { return name.starts_with(layer); });
  return alike ? fmt::format("'{}*'", layer) : fmt::format("{}", fmt::join(names, " "));
}

// Without those that start anew. Raises ExitCode::checkpoint for tensors that the files lack.
std::vector<NamePair> chosen_pairs(const std::string& from, HfWeights& weights,
                                   std::vector<NamePair> pairs,
                                   const std::vector<std::string>& reinitialise) {
  std::vector<std::string> names, missing;
  HfTensor first;
  for (const NamePair& pair : pairs)
    names.push_back(pair.ours);
  if (const std::string* const pattern = unmatched(reinitialise, names))
    fail(ExitCode::config, "--reinitialise: \"{}\" matches no tensor of the model; {}", *pattern,
         near_names(*pattern, names));
  const ParamRules fresh{.frozen = reinitialise};
  for (const NamePair& pair : pairs) {
    for (const HfTensor& part : weights.parts(pair)) {
      if (fresh.freezes(pair.ours))
        weights.ignore(part);
      else if (!weights.has(part)) {
        if (missing.empty()) first = part;
        if (missing.empty() || missing.back() != pair.ours) missing.push_back(pair.ours);
      }
    }
  }
  if (!missing.empty())
    fail(ExitCode::checkpoint,
         "{}: has no tensor {} {}; the config is for another model, or this one was saved without "
         "{}: then give --reinitialise {}, and train from the result",
         from, first.name, first.shape.to_string(), fmt::join(missing, ", "), patterns_of(missing));
  std::erase_if(pairs, [&](const NamePair& pair) { return fresh.freezes(pair.ours); });
  return pairs;
}

}  // namespace

void export_weights(const RunState& from, const Config& config, const Destination& destination,
                    const ExportOptions& options) {
  const hugging_face::Exchange& exchange = exchange_of(config.model);
  const std::string description_text = exchange.config_json(config.model);
  const std::string description = destination.to + "/" + hf_config;
  for (const char* const name : {"model.safetensors", "model.safetensors.index.json", hf_config})
    refuse_to_replace(destination.to + "/" + name, destination);
  const WeightsChoice choice{.path = from.path, .average = options.average};
  const ValueKind kind = choice.kind();
  const StoredValues stored = from.values(kind);
  MergedReader reader(from, stored, config.lora);
  const std::vector<NamePair> pairs = exchange.names(config.model);
  std::vector<PlannedTensor> tensors;
  std::vector<Part> parts;
  for (const NamePair& pair : pairs) {
    const auto found = stored.tensors.find(pair.ours);
    if (found == stored.tensors.end() || found->second.shape != our_shape(pair))
      fail(ExitCode::checkpoint, "{}: has no tensor {} {}; --config is for another model",
           from.path, pair.ours, our_shape(pair).to_string());
    std::int64_t first = 0;
    for (const HfTensor& part : pair.hf) {
      tensors.push_back({.name = part.name, .shape = part.shape, .stored = options.dtype});
      parts.push_back({&pair, first});
      first += part.shape.count();
    }
  }
  const std::int64_t batches = batches_behind(from);
  for (const std::string& name : counters_of(config.model))
    tensors.push_back({name, {}, batches});
  const std::string beside = text_files_of(from.path);
  if (const std::string unread = check_tokenizer(beside, traits_of(config.model).vocabulary);
      !unread.empty())
    fmt::print("the tokenizer is copied, but cannot be used here: {}\n", unread);
  const OutputPlace made(destination.to);
  remove_hf_weights(destination.to);
  const std::size_t files =
      write_hf_weights(destination.to, tensors, options.shard_bytes, [&](std::size_t i) {
        const auto& [pair, first] = parts[i];
        const std::vector<float>& whole = reader.whole(pair->ours);
        const Shape& shape = tensors[i].shape;
        return turned_to_theirs({whole.begin() + first, whole.begin() + first + shape.count()},
                                *pair, shape);
      });
  const auto trained = ids_of_run(beside);
  write_file(description,
             described(description_text, beside,
                       trained ? trained->classes : std::vector<std::string>{}, options.dtype),
             ExitCode::internal);
  const auto copied = copy_text_files(beside, destination.to);
  const ModelTraits traits = traits_of(config.model);
  if (traits.input == InputKind::images)
    write_file(destination.to + "/" + preprocessor_file, preprocessor_text(traits, config.data),
               ExitCode::internal);
  if (traits.generates && std::ranges::find(copied, "generation_config.json") == copied.end())
    write_file(destination.to + "/generation_config.json", "{\n  \"_from_model_config\": true\n}\n",
               ExitCode::internal);
  fmt::print("from  {}\n{}: {} tensors in {}, {}{}{}\n", from.describe(kind), destination.to,
             tensors.size(), files == 1 ? "model.safetensors" : fmt::format("{} files", files),
             hf_config, copied.empty() ? "" : ", ", fmt::join(copied, ", "));
  if (options.expectations) write_expectations(destination.to, config.model, choice);
}

ModelConfig model_of_hugging_face(const std::string& weights) {
  const std::string path = directory_of(weights) + "/" + hf_config;
  if (!fs::exists(weights)) fail(ExitCode::config, "{}: no such file or directory", weights);
  if (!fs::exists(path))
    fail(ExitCode::config, "{}: there is no {} beside the weights; give --config", weights,
         hf_config);
  return model_of_hf_config(path);
}

std::string model_section(const ModelConfig& model) {
  // Written even if they have their default.
  static constexpr std::array<std::string_view, 5> of_text = {
      "model.layers", "model.hidden", "model.heads", "model.context", "model.vocabulary"};
  static constexpr std::array<std::string_view, 7> of_images = {
      "model.layers",     "model.hidden",   "model.heads",  "model.patch",
      "model.image_size", "model.channels", "model.classes"};
  static constexpr std::array<std::string_view, 6> of_resnets = {
      "model.block",      "model.stages",   "model.width",
      "model.image_size", "model.channels", "model.classes"};
  std::span<const std::string_view> sizes = of_images;
  if (model.family == resnet_name) sizes = of_resnets;
  if (traits_of(model).input == InputKind::tokens) sizes = of_text;
  Config config = default_config();
  const KeyValues defaults = values_by_key(config);
  config.model = model;
  std::string keys = "family: " + model.family;
  const KeyValues values = values_by_key(config);
  for (std::size_t i = 0; i < values.size(); ++i) {
    constexpr std::string_view section = "model.";
    const auto& [key, value] = values[i];
    if (!key.starts_with(section) || key == "model.family") continue;
    if (value == defaults[i].second && std::ranges::find(sizes, key) == sizes.end()) continue;
    keys += fmt::format(", {}: {}", key.substr(section.size()), value);
  }
  return fmt::format("model: {{{}}}\n", keys);
}

void import_weights(const std::string& from, const ModelConfig& model,
                    const Destination& destination, bool checked,
                    const std::vector<std::string>& reinitialise) {
  const hugging_face::Exchange& exchange = exchange_of(model);
  const bool alone = destination.to.ends_with(".safetensors");
  if (alone && fs::is_directory(destination.to))
    fail(ExitCode::config, "--out {}: is a directory; name a file in it", destination.to);
  if (alone) refuse_to_replace(destination.to, destination);
  const std::string description = directory_of(from) + "/" + hf_config;
  check_hf_config(description, model, reinitialise.empty());
  HfWeights weights(from, exchange, model);
  if (!reinitialise.empty() && fs::exists(description)) {  // of another head
    for (const NamePair& pair : exchange.names(model_of_hf_config(description)))
      for (const HfTensor& part : pair.hf)
        weights.ignore(part);
  }
  const std::vector<NamePair> pairs =
      chosen_pairs(from, weights, exchange.names(model), reinitialise);
  std::vector<PlannedTensor> tensors;
  for (const NamePair& pair : pairs) {
    for (const HfTensor& part : weights.parts(pair))
      weights.require(part);
    tensors.push_back({pair.ours, our_shape(pair)});
  }
  weights.expect_nothing_else();
  const auto expected =
      checked && reinitialise.empty() ? read_expectations(directory_of(from), model) : std::nullopt;
  const std::string pictures = read_preprocessor(directory_of(from), traits_of(model));
  const std::optional<std::int64_t> batches = weights.batches(counters_of(model));
  std::map<std::string, std::string> metadata{{"format", "trireme"}};
  if (batches) metadata[batches_key] = fmt::format("{}", *batches);
  if (!reinitialise.empty())
    metadata[lacking_key] = fmt::format("{}", fmt::join(reinitialise, " "));
  const std::string unread = alone ? "" : check_run(from, model, destination);
  const auto made = alone ? nullptr : std::make_unique<OutputPlace>(destination.to);
  const std::string file = alone ? destination.to : destination.to + "/weights.safetensors";
  write_safetensors(file, tensors, metadata,
                    [&](std::size_t i) { return to_ours(pairs[i], weights); });
  fmt::print("{}: {} tensors\n", file, tensors.size());
  if (const auto& left = weights.left_out(); !left.empty())
    fmt::print(
        "left out, because the model does not use them: {} tensors ({}{})\n", left.size(),
        fmt::join(left.begin(), left.begin() + std::min<std::ptrdiff_t>(4, std::ssize(left)), ", "),
        left.size() > 4 ? ", ..." : "");
  if (expected) {
    keep_if_as_expected(*expected, model, file);
  } else {
    fmt::print("names, shapes and config.json agree; logits to compare with {}\n",
               checked ? fmt::format("are not there (they would be in {})", expectations_file)
                       : "were not read (--no-check)");
  }
  if (!pictures.empty()) fmt::print("{}: {}", preprocessor_file, pictures);
  if (!alone) finish_run(from, model, destination.to, pictures, unread);
}

}  // namespace trireme
