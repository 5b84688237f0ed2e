// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/rules/exclusions.h"

#include <charconv>
#include <string>

#include "runtime/config/rules/error_list.h"
#include "runtime/config/rules/rules.h"
#include "runtime/config/value.h"

namespace trireme::config {
namespace {

constexpr Exclusion excluded_pairs[] = {
    {"precision: tf32", "device.type: cpu", "and tf32 is how tensor cores of a GPU multiply fp32",
     "fp32, bf16, fp16, fp8 or auto"},
    {"device.fused_epilogues", "precision: fp8", "whose matmuls have none",
     "off, or precision bf16"},
    {"device.fused_epilogues", "train.recompute: selective",
     "which cannot repeat GELU of sums that were not rounded", "off, or recompute none or full"},
    {"lora.dropout", "train.row_tile", "whose tiles do not know their positions", "0 for one"},
    {"optimizer.name: muon", "lora.rank", "which freezes the hidden matrices that muon is for",
     "adamw"},
    {"train.ema_decay", "lora.rank", "which keeps no averages", "0"},
    {"train.freeze", "lora.rank",
     "which freezes all weights but those of lora.modules_to_save and train.initial_reinitialise",
     "[]"},
    {"train.eval_every_samples", "train.eval_every", "but evaluations have one distance",
     "0 for one"},
    {"train.eval_overlap", "data.damaged: skip",
     "so that a sample would be judged without what did not decode", "0, or refuse"},
    {"train.eval_overlap", "data.sources", "", "0"},
    {"train.row_tile", "parallel.sequence", "which divides the rows of a tile again",
     "0, or parallel.context instead of sequence"},
    {"train.row_tile", "parallel.schedule: zero-bubble",
     "whose late weight gradients still need what would be recomputed", "0, or schedule 1f1b"},
    {"train.recompute", "parallel.schedule: zero-bubble",
     "whose late weight gradients still need what would be recomputed", "none, or schedule 1f1b"},
    {"parallel.zero: 2, 3", "parallel.schedule: zero-bubble",
     "which keeps gradients of several micro-batches apart", "0 or 1, or schedule 1f1b"},
    {"parallel.chunks: > 1", "parallel.schedule: gpipe, 1f1b, zero-bubble", "",
     "1, or schedule interleaved"},
    {"parallel.chunks: > 1", "parallel.pipeline: 1", "", "1, or pipeline 2 or more"},
    {"parallel.tensor_chunks: > 1", "parallel.tensor_blocks: 1",
     "where ranks have no sums to overlap", "1, or tensor 2 or more"},
    {"parallel.tensor_chunks: > 1", "parallel.sequence",
     "where each rank receives the sum of contiguous rows", "1, or sequence: false"},
    {"parallel.expert: > parallel.tensor", "lora.rank", "whose frozen experts all data ranks hold",
     "auto"},
    {"parallel.expert: > parallel.tensor", "optimizer.name: muon",
     "which gathers matrices over all data ranks", "auto"},
    {"parallel.expert: > parallel.tensor", "parallel.spatial", "whose ranks share samples", "auto"},
    {"parallel.reduce_dtype", "precision: fp32, tf32", "where all gradients are fp32",
     "fp32, or precision bf16, fp16 or fp8"},
    {"parallel.reduce_dtype", "reproducibility: layout",
     "but rounding before the sum makes results depend on the number of ranks",
     "fp32, or reproducibility run or fast"},
    {"train.noise_scale_every", "parallel.zero: 2, 3",
     "where no rank has the gradients of one micro-batch", "0, or zero 0 or 1"},
    {"train.noise_scale_every", "parallel.expert: > parallel.tensor",
     "which needs the gradients of several data ranks", "0, or expert auto"},
    {"train.noise_scale_every", "parallel.context_blocks: > 1",
     "but it needs gradients of whole micro-batches", "0, or context 1"},
    {"train.noise_scale_every", "device.graphs: step", "whose steps must all be the same",
     "0, or graphs layer or off"},
    {"train.batch_ramp", "device.graphs: step", "whose steps must all be the same",
     "no ramp, or graphs layer or off"},
    {"train.context_ramp", "device.graphs: step", "whose steps must all be the same",
     "no ramp, or graphs layer or off"},
    {"train.batch_ramp", "data.sources", "whose order assumes batches of one size", "no ramp"},
    {"telemetry.samples_every", "parallel.context_blocks: > 1",
     "of whose predictions a pass has only some", "0, or context 1"},
    {"data.last_batch: pad", "data.sources", "where each source has its own epochs", "drop"},
    {"data.shuffle_block: > 1", "data.shuffle: false", "which keeps all in order", "1"},
    {"data.shuffle_block: > 1", "data.sources", "which draws each sample by itself", "1"},
    {"data.shuffle_block: > 1", "data.validation_fraction", "which takes single samples out",
     "1, or data.validation_files or data.split_key, which leave blocks whole"}};

// "KEY: values", cut at the colon; `values` is empty for any but the default.
struct Setting {
  std::string_view key, values;

  explicit Setting(std::string_view text) : key(key_of(text)) {
    if (key.size() < text.size()) values = text.substr(key.size() + std::string_view(": ").size());
  }
};

std::int64_t number_of(const Subject& subject, std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, value).ptr == end) return value;
  const Field* const field = subject.keys.find(text);
  TRIREME_EXPECTS(field != nullptr, "{} is neither a number nor a key", text);
  return *std::get<std::int64_t*>(field->member(const_cast<Config&>(subject.config)));
}

bool holds(const Subject& subject, const Setting& setting) {
  const Field* const field = subject.keys.find(setting.key);
  TRIREME_EXPECTS(field != nullptr, "{} is not in the table", setting.key);
  std::string_view values = setting.values;
  if (values.empty()) return !same_value(*field, subject.config, subject.keys.defaults());
  constexpr std::string_view above = "> ", comma = ", ";
  if (values.starts_with(above))
    return number_of(subject, setting.key) > number_of(subject, values.substr(above.size()));
  const std::string actual = format_value(*field, subject.config);
  for (;;) {
    const std::size_t end = values.find(comma);
    if (values.substr(0, end) == actual) return true;
    if (end == values.npos) return false;
    values.remove_prefix(end + comma.size());
  }
}

}  // namespace

std::span<const Exclusion> exclusions() {
  return excluded_pairs;
}

std::string_view key_of(std::string_view setting) {
  return setting.substr(0, setting.find(": "));
}

void check_exclusions(const Subject& subject) {
  ErrorList errors;
  for (const Exclusion& row : excluded_pairs) {
    const Setting key(row.key), with(row.with);
    if (!holds(subject, key) || !holds(subject, with)) continue;
    errors.attempt([&] {
      refuse(subject, key.key, "{} with {}: {}{}{}; use {}", value_of(subject, key.key), with.key,
             value_of(subject, with.key), row.why.empty() ? "" : ", ", row.why, row.use);
    });
  }
  errors.raise();
}

}  // namespace trireme::config
