// SPDX-License-Identifier: Apache-2.0
#include "launch/checkpoint/weight_exchange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <span>

#include "launch/checkpoint/forward_check.h"
#include "launch/checkpoint/their_config.h"
#include "launch/checkpoint/their_files.h"
#include "models/config.h"
#include "models/registry.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/files/weight_files.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using hugging_face::NamePair;
using hugging_face::TheirTensor;

constexpr const char* their_config = "config.json";

const hugging_face::Exchange& exchange_of(const ModelConfig& model) {
  const hugging_face::Exchange* const exchange = family_of(model).exchange;
  if (exchange != nullptr) return *exchange;
  std::string known;
  for (const Family& family : families()) {
    if (family.exchange != nullptr)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", family.keys.name);
  }
  fail(ExitCode::config,
       "model.family: {} has no exchange with Hugging Face (filters are (out, height, width, in) "
       "here and (out, in, height, width) there, and the stems differ); these have: {}",
       model.family, known);
}

void refuse_to_replace(const std::string& path, const Destination& destination) {
  std::error_code error;
  if (destination.force || !fs::exists(path, error)) return;
  fail(ExitCode::config, "--out: {} exists; give another place, or --force to replace it", path);
}

void make_directory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) library_failed(fmt::format("mkdir({})", path), error.message(), ExitCode::config);
}

// (rows, columns) -> (columns, rows), of each of as many matrices as there are.
std::vector<float> transposed(const std::vector<float>& from, std::int64_t rows,
                              std::int64_t columns) {
  std::vector<float> to(from.size());
  for (std::size_t first = 0; first < from.size();
       first += static_cast<std::size_t>(rows * columns)) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c)
        to[first + static_cast<std::size_t>(c * rows + r)] =
            from[first + static_cast<std::size_t>(r * columns + c)];
    }
  }
  return to;
}

// The matrices of theirs that lie the other way here: the whole one, or one a filter.
struct Turned {
  std::int64_t rows = 0, columns = 0;
};
Turned turned(const NamePair& pair, const Shape& theirs) {
  if (pair.filters) return {theirs[1], theirs[2] * theirs[3]};
  return pair.transposed ? Turned{theirs[0], theirs[1]} : Turned{};
}

// Of ours, made of theirs.
Shape our_shape(const NamePair& pair) {
  const Shape& first = pair.theirs.front().shape;
  if (pair.our_shape.rank() > 0) return pair.our_shape;
  if (pair.filters) return {first[0], first[2], first[3], first[1]};
  if (pair.transposed) return {first[1], first[0]};
  std::int64_t rows = pair.padding_rows;
  for (const TheirTensor& part : pair.theirs)
    rows += part.shape[0];
  return first.rank() == 1 ? Shape{rows} : Shape{rows, first[1]};
}

std::string directory_of(const std::string& weights) {
  return fs::is_directory(weights) ? weights : parent_directory(weights);
}

// The directory of the run that weights or a checkpoint lie in, for its tokenizer.
std::string text_files_of(const std::string& state) {
  fs::path directory = fs::absolute(directory_of(state)).lexically_normal();
  for (int level = 0; level < 3; ++level, directory = directory.parent_path()) {
    if (fs::exists(directory / "config.yaml")) return directory.string();
  }
  return directory_of(state);
}

void check_tied_head(const WeightFiles& files, const hugging_face::Exchange& exchange,
                     const std::vector<float>& tokens) {
  if (!files.contains(exchange.head)) return;
  const std::vector<float> head = files.read(exchange.head);
  const std::size_t bytes = std::min(head.size(), tokens.size()) * sizeof(float);
  if (head.size() != tokens.size() || std::memcmp(head.data(), tokens.data(), bytes) != 0)
    fail(ExitCode::checkpoint,
         "{}: {} differs from {}; the head is tied to the tokens in the model of the config",
         files.file_of(exchange.head).path(), exchange.head, exchange.tokens);
}

// Their tensors by the names that `names` gives them.
class TheirWeights {
 public:
  TheirWeights(const std::string& path, const hugging_face::Exchange& exchange,
               const ModelConfig& model)
      : path_(path), exchange_(exchange), files_(path) {
    for (const std::string& name : files_.names()) {
      if (const auto plain = exchange.plain_name(name, model)) names_.emplace(*plain, name);
    }
    tied_ = std::ranges::none_of(exchange.names(model), [&](const NamePair& pair) {
      return pair.theirs.front().name == exchange.head;
    });
  }

  // Raises where it is not there, or another than the model's.
  void require(const TheirTensor& part) {
    const std::string& name = name_of(part);
    used_.insert(part.name);
    const SafetensorsFile& file = files_.file_of(name);
    if (const Shape shape = file.shape(name); shape != part.shape)
      fail(ExitCode::checkpoint, "{}: {} is {}, not {}; the config is of another model", path_,
           name, shape.to_string(), part.shape.to_string());
  }

  [[nodiscard]] std::vector<float> read(const TheirTensor& part) const {
    std::vector<float> values = files_.read(name_of(part));
    if (tied_ && part.name == exchange_.tokens) check_tied_head(files_, exchange_, values);
    return values;
  }

  void expect_nothing_else() const {
    for (const auto& [plain, name] : names_) {
      if (!used_.contains(plain))
        fail(ExitCode::checkpoint,
             "{}: holds tensor {}, which the model of the config does not have", path_, name);
    }
  }

 private:
  [[nodiscard]] const std::string& name_of(const TheirTensor& part) const {
    const auto found = names_.find(part.name);
    if (found == names_.end())
      fail(ExitCode::checkpoint, "{}: has no tensor {} {}; the config is of another model", path_,
           part.name, part.shape.to_string());
    return found->second;
  }

  std::string path_;
  const hugging_face::Exchange& exchange_;
  WeightFiles files_;
  std::map<std::string, std::string> names_;  // by plain name
  std::set<std::string> used_;                // plain names
  bool tied_ = false;
};

std::vector<float> to_ours(const NamePair& pair, const TheirWeights& weights) {
  std::vector<float> values;
  for (const TheirTensor& part : pair.theirs) {
    std::vector<float> own = weights.read(part);
    if (const Turned as = turned(pair, part.shape); as.rows > 0)
      own = transposed(own, as.rows, as.columns);
    values.insert(values.end(), own.begin(), own.end());
  }
  values.resize(static_cast<std::size_t>(our_shape(pair).count()), 0.0F);
  return values;
}

// Where one of theirs lies in ours.
struct Part {
  const NamePair* pair;
  std::int64_t first;  // element
};

// Before anything is written: a place for the run that a config and weights of theirs make. What of
// their tokenizer is not read here, or "".
std::string make_run(const std::string& from, const ModelConfig& model,
                     const Destination& destination) {
  if (fs::exists(destination.to + "/metrics.jsonl"))
    fail(ExitCode::config,
         "--out: {} is the directory of a run that has trained; give another place",
         destination.to);
  for (const char* const name : {"/config.yaml", "/weights.safetensors"})
    refuse_to_replace(destination.to + name, destination);
  std::string unread = check_tokenizer(directory_of(from), traits_of(model).vocabulary);
  make_directory(destination.to);
  return unread;
}

// What answers otherwise than it should is not left for use.
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
                const std::string& unread) {
  const auto copied = copy_text_files(directory_of(from), to);
  write_file(to + "/config.yaml", model_section(model), ExitCode::internal);
  fmt::print("{}: config.yaml{}{}\n", to, copied.empty() ? "" : ", ", fmt::join(copied, ", "));
  if (!unread.empty()) fmt::print("the tokenizer is kept, but not read here: {}\n", unread);
}

}  // namespace

void export_weights(const RunState& from, const Config& config, const Destination& destination,
                    const ExportOptions& options) {
  const hugging_face::Exchange& exchange = exchange_of(config.model);
  const std::string description_text = exchange.config_json(config.model);
  const std::string description = destination.to + "/" + their_config;
  for (const char* const name : {"model.safetensors", "model.safetensors.index.json", their_config})
    refuse_to_replace(destination.to + "/" + name, destination);
  const WeightsChoice choice{.path = from.path, .average = options.average};
  const ValueKind kind = choice.kind();
  const StoredValues stored = from.values(kind);
  const std::vector<NamePair> pairs = exchange.names(config.model);
  std::vector<PlannedTensor> tensors;
  std::vector<Part> parts;
  for (const NamePair& pair : pairs) {
    const auto found = stored.tensors.find(pair.ours);
    if (found == stored.tensors.end() || found->second.shape != our_shape(pair))
      fail(ExitCode::checkpoint, "{}: has no tensor {} {}; --config is of another model", from.path,
           pair.ours, our_shape(pair).to_string());
    std::int64_t first = 0;
    for (const TheirTensor& part : pair.theirs) {
      tensors.push_back({part.name, part.shape});
      parts.push_back({&pair, first});
      first += part.shape.count();
    }
  }
  const std::string beside = text_files_of(from.path);
  if (const std::string unread = check_tokenizer(beside, traits_of(config.model).vocabulary);
      !unread.empty())
    fmt::print("the tokenizer is taken along, but not read here: {}\n", unread);
  make_directory(destination.to);
  remove_their_weights(destination.to);
  StoredReader reader(stored);
  const std::size_t files =
      write_their_weights(destination.to, tensors, options.shard_bytes, [&](std::size_t i) {
        const auto& [pair, first] = parts[i];
        const std::vector<float> whole = reader.whole(stored.tensors.find(pair->ours)->second);
        const Shape& shape = tensors[i].shape;
        std::vector<float> own(whole.begin() + first, whole.begin() + first + shape.count());
        const Turned as = turned(*pair, shape);
        return as.rows > 0 ? transposed(own, as.columns, as.rows) : own;
      });
  write_file(description, description_text, ExitCode::internal);
  const auto copied = copy_text_files(beside, destination.to);
  if (std::ranges::find(copied, "generation_config.json") == copied.end())
    write_file(destination.to + "/generation_config.json", "{\n  \"_from_model_config\": true\n}\n",
               ExitCode::internal);
  fmt::print("from  {}\n{}: {} tensors in {}, {}{}{}\n", from.describe(kind), destination.to,
             tensors.size(), files == 1 ? "model.safetensors" : fmt::format("{} files", files),
             their_config, copied.empty() ? "" : ", ", fmt::join(copied, ", "));
  if (options.expectations) write_expectations(destination.to, config.model, choice);
}

ModelConfig model_of_hugging_face(const std::string& weights) {
  const std::string path = directory_of(weights) + "/" + their_config;
  if (!fs::exists(path))
    fail(ExitCode::config, "{}: there is no {} beside the weights; give --config", weights,
         their_config);
  return model_of_their_config(path);
}

std::string model_section(const ModelConfig& model) {
  // Said even where they are the default.
  static constexpr std::array<std::string_view, 5> of_text = {
      "model.layers", "model.hidden", "model.heads", "model.context", "model.vocabulary"};
  static constexpr std::array<std::string_view, 7> of_images = {
      "model.layers",     "model.hidden",   "model.heads",  "model.patch",
      "model.image_size", "model.channels", "model.classes"};
  const bool text = traits_of(model).input == InputKind::tokens;
  const std::span<const std::string_view> sizes =
      text ? std::span<const std::string_view>(of_text)
           : std::span<const std::string_view>(of_images);
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
                    const Destination& destination, bool checked) {
  const hugging_face::Exchange& exchange = exchange_of(model);
  const bool alone = destination.to.ends_with(".safetensors");
  if (alone && fs::is_directory(destination.to))
    fail(ExitCode::config, "--out {}: is a directory; name a file in it", destination.to);
  if (alone) refuse_to_replace(destination.to, destination);
  check_their_config(directory_of(from) + "/" + their_config, model);
  TheirWeights weights(from, exchange, model);
  const std::vector<NamePair> pairs = exchange.names(model);
  std::vector<PlannedTensor> tensors;
  for (const NamePair& pair : pairs) {
    for (const TheirTensor& part : pair.theirs)
      weights.require(part);
    tensors.push_back({pair.ours, our_shape(pair)});
  }
  weights.expect_nothing_else();
  const auto expected = checked ? read_expectations(directory_of(from), model) : std::nullopt;
  const std::string unread = alone ? "" : make_run(from, model, destination);
  const std::string file = alone ? destination.to : destination.to + "/weights.safetensors";
  write_safetensors(file, tensors, {{"format", "trireme"}},
                    [&](std::size_t i) { return to_ours(pairs[i], weights); });
  fmt::print("{}: {} tensors\n", file, tensors.size());
  if (expected) {
    keep_if_as_expected(*expected, model, file);
  } else {
    fmt::print(
        "not checked by a forward pass: {}\n",
        checked ? fmt::format("no {} lies beside the weights", expectations_file) : "--no-check");
  }
  if (!alone) finish_run(from, model, destination.to, unread);
}

}  // namespace trireme
