// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step/step_batches.h"

#include "runtime/comm/watchdog/step_watch.h"
#include "runtime/device/trace/trace_log.h"

namespace trireme {
namespace {

constexpr std::string_view waits_for_data = "wait for data";

}  // namespace

void StepBatches::begin_step(BatchSource& source) {
  source_ = &source;
  fetched_ = 0;
  if (!static_) return;
  set_activity("waiting for data");
  const TraceSpan span(TraceKind::wait, *streams_.compute, waits_for_data);
  static_->fill(source, *streams_.copy, *streams_.compute);
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

}  // namespace trireme
