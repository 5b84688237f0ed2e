// SPDX-License-Identifier: Apache-2.0
#include "launch/checkpoint/weight_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>

#include "launch/checkpoint/their_config.h"
#include "models/config.h"
#include "models/registry.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/files/weight_files.h"
#include "runtime/checkpoint/save/weights.h"

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
  if (fs::is_directory(path, error))
    fail(ExitCode::config, "--out {}: is a directory; name a file in it", path);
  if (destination.force || !fs::exists(path, error)) return;
  fail(ExitCode::config, "--out: {} exists; give another place, or --force to replace it", path);
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

// The tensors of theirs that one of ours has; its padding is left out.
void to_theirs(const NamePair& pair, std::vector<float> values, std::vector<WholeTensor>& tensors) {
  std::int64_t first = 0;
  for (const TheirTensor& part : pair.theirs) {
    std::vector<float> own(values.begin() + first, values.begin() + first + part.shape.count());
    first += part.shape.count();
    if (const Turned as = turned(pair, part.shape); as.rows > 0)
      own = transposed(own, as.columns, as.rows);
    tensors.push_back({part.name, part.shape, std::move(own)});
  }
}

std::string directory_of(const std::string& weights) {
  return fs::is_directory(weights) ? weights : parent_directory(weights);
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

  // Each can be taken once.
  std::vector<float> take(const TheirTensor& part) {
    const auto found = names_.find(part.name);
    if (found == names_.end())
      fail(ExitCode::checkpoint, "{}: has no tensor {} {}; the config is of another model", path_,
           part.name, part.shape.to_string());
    const Shape shape = files_.file_of(found->second).shape(found->second);
    if (shape != part.shape)
      fail(ExitCode::checkpoint, "{}: {} is {}, not {}; the config is of another model", path_,
           found->second, shape.to_string(), part.shape.to_string());
    std::vector<float> values = files_.read(found->second);
    if (tied_ && part.name == exchange_.tokens) check_tied_head(files_, exchange_, values);
    names_.erase(found);
    return values;
  }

  void expect_nothing_left() const {
    if (names_.empty()) return;
    fail(ExitCode::checkpoint, "{}: holds tensor {}, which the model of the config does not have",
         path_, names_.begin()->second);
  }

 private:
  std::string path_;
  const hugging_face::Exchange& exchange_;
  WeightFiles files_;
  std::map<std::string, std::string> names_;  // by plain name
  bool tied_ = false;
};

WholeTensor to_ours(const NamePair& pair, TheirWeights& weights) {
  std::vector<float> values;
  for (const TheirTensor& part : pair.theirs) {
    std::vector<float> own = weights.take(part);
    if (const Turned as = turned(pair, part.shape); as.rows > 0)
      own = transposed(own, as.rows, as.columns);
    values.insert(values.end(), own.begin(), own.end());
  }
  const Shape shape = our_shape(pair);
  values.resize(static_cast<std::size_t>(shape.count()), 0.0F);
  return {pair.ours, shape, std::move(values)};
}

}  // namespace

void export_weights(const RunState& from, const Config& config, const Destination& destination,
                    bool average) {
  const hugging_face::Exchange& exchange = exchange_of(config.model);
  const std::string description_text = exchange.config_json(config.model);
  const std::string weights = destination.to + "/model.safetensors";
  const std::string description = destination.to + "/" + their_config;
  refuse_to_replace(weights, destination);
  refuse_to_replace(description, destination);
  const ValueKind kind = average ? ValueKind::average : ValueKind::model;
  const StoredValues stored = from.values(kind);
  StoredReader reader(stored);
  std::vector<WholeTensor> tensors;
  for (const NamePair& pair : exchange.names(config.model)) {
    const auto found = stored.tensors.find(pair.ours);
    if (found == stored.tensors.end() || found->second.shape != our_shape(pair))
      fail(ExitCode::checkpoint, "{}: has no tensor {} {}; --config is of another model", from.path,
           pair.ours, our_shape(pair).to_string());
    to_theirs(pair, reader.whole(found->second), tensors);
  }
  std::error_code error;
  fs::create_directories(destination.to, error);
  if (error)
    library_failed(fmt::format("mkdir({})", destination.to), error.message(), ExitCode::config);
  save_weights(weights, tensors, {{"format", "pt"}});
  write_file(description, description_text, ExitCode::internal);
  fmt::print("from  {}\n{}: {} tensors, and {}\n", from.describe(kind), weights, tensors.size(),
             their_config);
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
                    const Destination& destination) {
  const hugging_face::Exchange& exchange = exchange_of(model);
  refuse_to_replace(destination.to, destination);
  check_their_config(directory_of(from) + "/" + their_config, model);
  TheirWeights weights(from, exchange, model);
  std::vector<WholeTensor> tensors;
  for (const NamePair& pair : exchange.names(model))
    tensors.push_back(to_ours(pair, weights));
  weights.expect_nothing_left();
  save_weights(destination.to, tensors, {{"format", "trireme"}});
  fmt::print("{}: {} tensors\n", destination.to, tensors.size());
}

}  // namespace trireme
