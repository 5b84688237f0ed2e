// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/work_log.h"

#include "runtime/base/error.h"
#include "runtime/device/device.h"

namespace trireme {

std::string_view name_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::kernel:
      return "kernel";
    case WorkKind::library:
      return "library";
    case WorkKind::copy:
      return "copy";
    case WorkKind::fill:
      return "fill";
    case WorkKind::message:
      return "message";
  }
  return "unknown";
}

WorkLog::WorkLog(bool timed)
    : timed_(timed), outer_(std::exchange(detail::current_work_log, this)) {}

WorkLog::~WorkLog() {
  detail::current_work_log = outer_;
}

void WorkLog::begin_range(const char* name) {
  lengths_.push_back(range_.size());
  if (!range_.empty()) range_ += '/';
  range_ += name;
}

// A range may have been opened before the log.
void WorkLog::end_range() {
  if (lengths_.empty()) return;
  range_.resize(lengths_.back());
  lengths_.pop_back();
}

void WorkLog::record(std::size_t event, Stream& stream) {
  if (event >= events_.size()) events_.push_back(stream.device().make_event(EventKind::timed));
  stream.record(*events_[event]);
}

void WorkLog::begin_operation(const char* name, Stream& stream, const Traffic& traffic) {
  if (depth_++ > 0) return;
  operations_.push_back({name, traffic, range_, repeated_});
  if (timed_) record(2 * operations_.size() - 2, stream);
}

void WorkLog::end_operation(Stream& stream) {
  if (--depth_ == 0 && timed_) record(2 * operations_.size() - 1, stream);
}

void WorkLog::read_times() {
  TRIREME_EXPECTS(timed_, "a work log has times only if it was made to take them");
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    Event& end = *events_[2 * i + 1];
    end.synchronize();
    operations_[i].seconds = 1e-3 * end.milliseconds_since(*events_[2 * i]);
  }
}

void WorkLog::clear() {
  TRIREME_EXPECTS(depth_ == 0, "a work log is cleared within an operation");
  operations_.clear();
  items_.clear();
}

void WorkLog::note(WorkKind kind, std::string name, double bytes, int kernels) {
  const int operation = depth_ > 0 ? static_cast<int>(operations_.size()) - 1 : -1;
  items_.push_back({.kind = kind,
                    .name = std::move(name),
                    .bytes = bytes,
                    .kernels = kernels,
                    .operation = operation,
                    .range = range_});
}

void WorkLog::note_kernel(std::string name, const WorkGrid& grid) {
  note(WorkKind::kernel, std::move(name));
  items_.back().grid = grid;
}

}  // namespace trireme
