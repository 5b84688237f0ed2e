// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/predictions.h"

#include <algorithm>

#include "runtime/base/float8.h"
#include "runtime/comm/comm_label.h"

namespace trireme {
namespace {

constexpr std::int64_t class_row = 3;  // target, prediction, margin

Tensor on_host(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), DType::f32, Shape{std::ssize(values)}};
}

float value_at(const std::byte* data, DType dtype, std::int64_t i) {
  if (dtype == DType::f32) return reinterpret_cast<const float*>(data)[i];
  if (dtype == DType::i32)
    return static_cast<float>(reinterpret_cast<const std::int32_t*>(data)[i]);
  if (dtype == DType::bf16) return static_cast<float>(reinterpret_cast<const bf16*>(data)[i]);
  return static_cast<float>(reinterpret_cast<const f16*>(data)[i]);
}

}  // namespace

bool has_scores(const TargetSpec& targets) {
  return targets.kind == TargetKind::label || targets.kind == TargetKind::token_classes ||
         (targets.kind == TargetKind::values && !targets.is_value_map());
}

Predictions::Predictions(Device& device, const ProcessMesh& mesh, const Model& model,
                         const TargetSpec& targets, std::int64_t batches)
    : device_(device), mesh_(mesh), model_(model), targets_(targets), batches_(batches) {}

std::vector<float> Predictions::to_host(Stream& stream, const Tensor& values) {
  if (host_.bytes() < values.bytes()) host_ = Buffer(device_, values.bytes(), MemoryKind::host);
  device_.copy(stream, host_.data(), values.data, values.bytes());
  stream.synchronize();
  std::vector<float> all(static_cast<std::size_t>(values.count()));
  for (std::int64_t i = 0; i < values.count(); ++i)
    all[static_cast<std::size_t>(i)] = value_at(host_.data(), values.dtype, i);
  return all;
}

void Predictions::add(const Context& context, std::int64_t batch) {
  const std::vector<float> targets = to_host(context.stream, context.batch.targets);
  const std::vector<float> outputs = to_host(context.stream, context(model_.head().logits));
  const bool values = targets_.kind == TargetKind::values;
  const std::size_t count = (values ? 2 : class_row) * targets.size();
  if (rows_.empty()) rows_.resize(count * static_cast<std::size_t>(batches_));
  auto to = rows_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(batch) * count);
  if (values) {
    std::ranges::copy(outputs, std::ranges::copy(targets, to).out);
    return;
  }
  const auto width = static_cast<std::ptrdiff_t>(outputs.size() / targets.size());
  auto row = outputs.begin();
  for (const float target : targets) {
    *to++ = target;
    *to++ = static_cast<float>(std::max_element(row, row + targets_.classes) - row);
    *to++ = targets_.classes == 2 ? row[1] - row[0] : 0;
    row += width;
  }
}

void Predictions::gather() {
  const ScopedCommLabel label("predictions");
  const int last = mesh_.shape().pipeline - 1;
  std::int64_t numbers = std::ssize(rows_);
  const Tensor size{reinterpret_cast<std::byte*>(&numbers), DType::i64, Shape{1}};
  if (last > 0) mesh_.pipeline().broadcast(*stream_, size, last);
  (*stream_).synchronize();
  all_.resize(static_cast<std::size_t>(numbers * mesh_.shape().data));
  if (numbers == 0) return;
  if (mesh_.here().pipeline == last)
    mesh_.data().all_gather(*stream_, on_host(rows_), on_host(all_));
  if (last > 0) mesh_.pipeline().broadcast(*stream_, on_host(all_), last);
  (*stream_).synchronize();
}

Scores Predictions::scores(std::int64_t first, std::int64_t end) const {
  const bool values = targets_.kind == TargetKind::values;
  const std::int64_t ranks = mesh_.shape().data, of_batch = std::ssize(all_) / (ranks * batches_);
  std::vector<float> wanted, predicted, margins;
  std::vector<std::int64_t> classes, chosen;
  for (std::int64_t k = first; k < end; ++k) {
    const auto rows = std::span(all_).subspan(
        static_cast<std::size_t>((k % ranks * batches_ + k / ranks) * of_batch),
        static_cast<std::size_t>(of_batch));
    if (values) {
      wanted.insert(wanted.end(), rows.begin(), rows.begin() + of_batch / 2);
      predicted.insert(predicted.end(), rows.begin() + of_batch / 2, rows.end());
      continue;
    }
    for (std::size_t i = 0; i < rows.size(); i += class_row) {
      if (rows[i] < 0) continue;  // ignored_target
      classes.push_back(static_cast<std::int64_t>(rows[i]));
      chosen.push_back(static_cast<std::int64_t>(rows[i + 1]));
      margins.push_back(rows[i + 2]);
    }
  }
  if (!values)
    return class_scores(classes, chosen, targets_.classes == 2 ? margins : std::span<float>{});
  const std::int64_t columns = targets_.shape.count();
  return targets_.is_multi_label() ? label_scores(wanted, predicted, columns)
                                   : value_scores(wanted, predicted, columns);
}

}  // namespace trireme
