// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/hf_weights.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "launch/exchange/mxfp4.h"
#include "runtime/base/error.h"

namespace trireme {

using hugging_face::HfTensor;
using hugging_face::NamePair;

namespace {

// A model saved without its head lacks the first part of all names, such as "bert.".
std::string missing_prefix(const WeightFiles& files, const std::vector<NamePair>& pairs) {
  for (const NamePair& pair : pairs) {
    if (pair.hf.empty()) continue;
    const std::string& name = pair.hf.front().name;
    const std::size_t prefix = name.find('.') + 1;
    const bool base = !files.contains(name) && files.contains(name.substr(prefix));
    return base ? name.substr(0, prefix) : "";
  }
  return {};
}

}  // namespace

HfWeights::HfWeights(const std::string& path, const hugging_face::Exchange& exchange,
                     const ModelConfig& model)
    : path_(path), tokens_table_(exchange.tokens), head_(exchange.head), files_(path) {
  if (exchange.tied != nullptr) std::tie(tokens_table_, head_) = exchange.tied(model);
  const std::string base = missing_prefix(files_, exchange.names(model));
  for (const std::string& name : files_.names()) {
    if (const auto plain = exchange.plain_name(base + name, model)) {
      names_.emplace(*plain, name);
    } else if (name != head_ && !name.ends_with(".num_batches_tracked")) {
      left_out_.push_back(name);
    }
  }
  tied_ = std::ranges::none_of(exchange.names(model), [&](const NamePair& pair) {
    return !pair.hf.empty() && pair.hf.front().name == head_;
  });
}

std::span<const HfTensor> HfWeights::parts(const NamePair& pair) const {
  const HfTensor& fused = pair.fused;
  if (fused.name.empty() || !names_.contains(fused.name)) return pair.hf;
  if (fused.shape.rank() == 3 && fused.shape[1] == fused.shape[2])
    fail(
        ExitCode::checkpoint,
        "{}: {} {} may be stored with either axis first; save the model with one tensor per expert",
        path_, fused.name, fused.shape.to_string());
  return {&fused, 1};
}

std::array<HfTensor, 2> HfWeights::packed(const HfTensor& part) const {
  const auto [blocks, scales] = mxfp4_shapes(part.shape);
  return {HfTensor{part.name + "_blocks", blocks}, {part.name + "_scales", scales}};
}

void HfWeights::require(const HfTensor& part) {
  if (!is_packed(part)) return require_stored(part);
  for (const HfTensor& half : packed(part)) {
    require_stored(half);
    const std::string& name = full_name(half);
    if (const DType dtype = files_.file_of(name).dtype(name); dtype != DType::u8)
      fail(ExitCode::checkpoint, "{}: {} holds {}, but MXFP4 is bytes (u8)", path_, name,
           name_of(dtype));
  }
}

void HfWeights::require_stored(const HfTensor& part) {
  const std::string& name = full_name(part);
  used_.insert(part.name);
  const SafetensorsFile& file = files_.file_of(name);
  if (const Shape shape = file.shape(name); shape != part.shape)
    fail(ExitCode::checkpoint, "{}: {} is {}, not {}; the config is for another model", path_, name,
         shape.to_string(), part.shape.to_string());
}

void HfWeights::expect_nothing_else() const {
  for (const auto& [plain, name] : names_) {
    if (!used_.contains(plain))
      fail(ExitCode::checkpoint, "{}: holds tensor {}, which the model of the config does not have",
           path_, name);
  }
}

std::vector<float> HfWeights::read(const HfTensor& part) const {
  if (is_packed(part)) {
    std::array<std::vector<std::uint8_t>, 2> halves;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string& name = full_name(packed(part)[i]);
      const SafetensorsFile& file = files_.file_of(name);
      halves[i].resize(file.bytes(name));
      file.read(name, halves[i].data(), halves[i].size());
    }
    return decode_mxfp4(path_ + ": " + part.name + "_scales", halves[0], halves[1], part.shape);
  }
  std::vector<float> values = files_.read(full_name(part));
  if (tied_ && part.name == tokens_table_) check_tied_head(values);
  return values;
}

std::optional<std::int64_t> HfWeights::batches(std::span<const std::string> counters) const {
  std::optional<std::int64_t> most;
  for (const std::string& name : counters) {
    if (!files_.contains(name)) continue;
    const SafetensorsFile& file = files_.file_of(name);
    std::int64_t count = -1;
    if (file.dtype(name) == DType::i64 && file.shape(name) == Shape{})
      file.read(name, &count, sizeof(count));
    if (count < 0)
      fail(ExitCode::checkpoint, "{}: {} is {} {}, not a count of i64 ()", path_, name,
           name_of(file.dtype(name)), file.shape(name).to_string());
    most = std::max(most.value_or(0), count);
  }
  return most;
}

const std::string& HfWeights::full_name(const HfTensor& part) const {
  const auto found = names_.find(part.name);
  if (found != names_.end()) return found->second;
  fail(ExitCode::checkpoint, "{}: has no tensor {} {}; the config is for another model", path_,
       part.name, part.shape.to_string());
}

void HfWeights::check_tied_head(const std::vector<float>& tokens) const {
  if (!files_.contains(head_)) return;
  const std::vector<float> head = files_.read(head_);
  const std::size_t bytes = std::min(head.size(), tokens.size()) * sizeof(float);
  if (head.size() != tokens.size() || std::memcmp(head.data(), tokens.data(), bytes) != 0)
    fail(ExitCode::checkpoint,
         "{}: {} differs from {}, but the head is tied to the tokens in the model of the config",
         files_.file_of(head_).path(), head_, tokens_table_);
}

}  // namespace trireme
