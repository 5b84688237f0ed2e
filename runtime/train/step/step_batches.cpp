// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step/step_batches.h"

#include <algorithm>
#include <array>
#include <span>

#include "runtime/comm/watchdog/step_watch.h"
#include "runtime/device/arena.h"
#include "runtime/device/trace/trace_log.h"

namespace trireme {
namespace {

constexpr std::string_view waits_for_data = "wait for data";

}  // namespace

void StepBatches::begin_step(BatchSource& source, std::int64_t count) {
  source_ = &source;
  fetched_ = 0;
  if (!static_) return;
  set_activity("waiting for data");
  const TraceSpan span(TraceKind::wait, *streams_.compute, waits_for_data);
  static_->fill(source, count, *streams_.copy, *streams_.compute);
}

void StepBatches::fetch(int micro_batch) {
  if (static_) return;
  for (; fetched_ <= micro_batch; ++fetched_) {
    const TraceSpan span(TraceKind::wait, *streams_.compute, waits_for_data);
    batches_[static_cast<std::size_t>(fetched_) % batches_.size()] =
        source_->next(*streams_.copy, *streams_.compute);
  }
}

void StepBatches::use_first_for_all() {
  fetch(0);
  batches_.assign(batches_.size(), Batch(batches_.front()));
}

const Batch& StepBatches::at(int micro_batch) const {
  return static_ ? static_->at(micro_batch)
                 : batches_[static_cast<std::size_t>(micro_batch) % batches_.size()];
}

namespace {

constexpr std::array parts{&Batch::inputs,         &Batch::targets, &Batch::weights,
                           &Batch::sample_ids,     &Batch::epochs,  &Batch::document_starts,
                           &Batch::document_bounds};

}  // namespace

void StaticBatches::lay_out(Place& place, const Batch& like) {
  place.full.padded = like.padded;
  Layout layout;
  std::array<std::size_t, parts.size()> offsets{};
  for (std::size_t i = 0; i < parts.size(); ++i)
    offsets[i] = layout.reserve((like.*parts[i]).bytes());
  const MemoryScope scope(MemoryRole::staging);
  place.memory = Buffer(device_, layout.peak_bytes(), MemoryKind::device);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor& tensor = like.*parts[i];
    if (tensor.shape.rank() == 0) continue;  // absent in all batches
    place.full.*parts[i] = {place.memory.data() + offsets[i], tensor.dtype, tensor.shape};
  }
}

void StaticBatches::fill(BatchSource& source, std::int64_t count, Stream& copy, Stream& compute) {
  for (Place& place : std::span(places_).first(static_cast<std::size_t>(count))) {
    const Batch& batch = source.next(copy, compute);
    if (place.memory.data() == nullptr) lay_out(place, batch);
    place.batch = place.full;
    for (const auto part : parts) {
      if ((batch.*part).empty()) {
        (place.batch.*part).data = nullptr;
        continue;
      }
      device_.copy(compute, (place.batch.*part).data, (batch.*part).data, (batch.*part).bytes());
    }
  }
}

bool StaticBatches::complete() const {
  return std::ranges::all_of(places_, [](const Place& place) {
    return place.batch.document_bounds.empty() == place.full.document_bounds.empty();
  });
}

}  // namespace trireme
