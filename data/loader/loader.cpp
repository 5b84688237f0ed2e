// SPDX-License-Identifier: Apache-2.0
#include "data/loader/loader.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/test_hooks.h"
#include "runtime/device/trace/host_trace.h"
#include "runtime/device/trace/trace_log.h"

namespace trireme {
namespace {

// Between polls of a busy compute stream.
constexpr auto look_again = std::chrono::microseconds(200);

static_assert(masked_target == ignored_target);

std::int64_t nanoseconds_on(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

}  // namespace

Loader::Loader(Device& device, const Dataset& dataset, const BatchPlan& plan,
               const LoaderOptions& options)
    : device_(device),
      dataset_(dataset),
      plan_(plan),
      context_(options.context),
      parts_(std::min(options.workers, plan.micro_batch())),
      memory_(device, dataset.layout(), plan.micro_batch(), options) {
  TRIREME_EXPECTS(options.workers > 0 && options.prefetch > 0 && options.held > 0,
                  "{} workers, prefetch {}, {} held batches", options.workers, options.prefetch,
                  options.held);
  for (BatchMemory& memory : memory_.host)
    slots_.push_back({.host = memory, .copied = device.make_event(EventKind::awaited)});
  for (BatchMemory& memory : memory_.device)
    targets_.push_back({.device = memory, .arrived = device.make_event()});
  released_ = device.make_event();
  threads_.reserve(static_cast<std::size_t>(options.workers));
  try {
    for (std::int64_t i = 0; i < options.workers; ++i)
      ::pthread_setname_np(threads_.emplace_back([this] { work(); }).native_handle(),
                           "trireme-data");
  } catch (...) {
    stop();
    throw;
  }
}

Loader::~Loader() {
  stop();
  // A copy may still read a host buffer; the error of a failed stream was raised elsewhere.
  for (const Slot& slot : slots_) {
    try {
      slot.copied->synchronize();
    } catch (...) {  // NOLINT: destructors do not throw
    }
  }
}

void Loader::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (std::thread& thread : threads_)
    thread.join();
  threads_.clear();
}

void Loader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto slots = static_cast<std::int64_t>(slots_.size());
    room_.wait(lock, [&] { return stopping_ || failed_ || ticket_ < (issued_ + slots) * parts_; });
    if (stopping_ || failed_) return;
    const std::int64_t batch = ticket_ / parts_, part = ticket_ % parts_;
    ++ticket_;
    Slot& slot = slot_of(batch);
    lock.unlock();
    std::exception_ptr error;
    try {
      fill(slot, batch, part);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) {
      // Parts are assigned in order, so every earlier batch is complete or assigned to other
      // workers.
      slot.error = error;
      failed_ = true;
      room_.notify_all();
    }
    if (++slot.done == parts_ || error) ready_.notify_one();
  }
}

void Loader::fill(Slot& slot, std::int64_t batch, std::int64_t part) {
  slot.copied->synchronize();
  const HostTraceSpan span("read of a batch", batch, part);
  const std::int64_t start = nanoseconds_on(CLOCK_MONOTONIC),
                     computed = nanoseconds_on(CLOCK_THREAD_CPUTIME_ID);
  const std::int64_t rows = plan_.micro_batch();
  for (std::int64_t row = rows * part / parts_; row < rows * (part + 1) / parts_ && !stopping_;
       ++row) {
    test_delay(DelayPlace::read);
    fill_row(slot, plan_.at(batch, row), row);
    if (context_) cut_sequences(slot.host.batch, batch, row);
  }
  read_ns_ += nanoseconds_on(CLOCK_MONOTONIC) - start;
  computed_ns_ += nanoseconds_on(CLOCK_THREAD_CPUTIME_ID) - computed;
}

ReadWork Loader::read_work() const {
  ReadWork work{.seconds = 1e-9 * static_cast<double>(read_ns_.load()),
                .computing = 1e-9 * static_cast<double>(computed_ns_.load())};
  const DecodedChunks chunks = dataset_.decoded_chunks();
  if (chunks.count > 0)
    work.decoded_again = static_cast<double>(chunks.again) / static_cast<double>(chunks.count);
  work.chunk_bytes = static_cast<double>(chunks.bytes);
  return work;
}

void Loader::fill_row(Slot& slot, SampleId id, std::int64_t row) const {
  const std::size_t input_bytes = dataset_.layout().input_bytes();
  const auto target_count = static_cast<std::size_t>(dataset_.layout().targets.count());
  const auto index = static_cast<std::size_t>(row);
  const std::span inputs(slot.host.batch.inputs.data + index * input_bytes, input_bytes);
  // 32 bits each, of classes or floats.
  const std::span targets(
      reinterpret_cast<std::int32_t*>(slot.host.batch.targets.data) + index * target_count,
      target_count);
  slot.host.batch.sample_ids.as<std::int64_t>()[row] = id.sample;
  slot.host.batch.epochs.as<std::int64_t>()[row] = id.epoch;
  const bool padding = id.sample < 0;
  if (padding) {
    std::fill(inputs.begin(), inputs.end(), std::byte{0});
    std::ranges::fill(targets, dataset_.layout().no_target());
  } else {
    dataset_.read_in_epoch(id.epoch, id.sample, inputs, targets);
  }
  if (dataset_.layout().documents) separate_documents(slot.host.batch, id.sample, row);
  if (dataset_.layout().weighted)
    slot.host.batch.weights.as<float>()[row] = padding ? 0.0F : dataset_.weight(id.sample);
}

// Cuts into sequences of the step's length, each like a separate document. The target of a
// sequence's last token is still the following token.
void Loader::cut_sequences(const Batch& batch, std::int64_t number, std::int64_t row) const {
  const auto length = batch.document_starts.count() / plan_.micro_batch();
  const std::span starts(batch.document_starts.as<std::int32_t>() + row * length,
                         static_cast<std::size_t>(length));
  if (!dataset_.layout().documents) std::ranges::fill(starts, 0);
  const std::int64_t longest = context_->size_at(plan_.step_of(number));
  for (std::int64_t t = 0; t < length; ++t) {
    std::int32_t& start = starts[static_cast<std::size_t>(t)];
    start = std::max(start, static_cast<std::int32_t>(t / longest * longest));
  }
}

// The token after a document's end belongs to another document, so it is no target.
void Loader::separate_documents(const Batch& batch, std::int64_t sample, std::int64_t row) const {
  const auto length = static_cast<std::size_t>(dataset_.layout().inputs.count());
  const auto index = static_cast<std::size_t>(row);
  const std::span to(batch.document_starts.as<std::int32_t>() + index * length, length);
  if (sample < 0) {
    std::ranges::fill(to, 0);
    return;
  }
  static thread_local std::vector<std::int32_t> starts;
  starts.resize(length + 1);
  dataset_.document_starts(sample, starts);
  std::ranges::copy(std::span(starts).first(length), to.begin());
  if (!dataset_.layout().predicts_next) return;
  const std::span targets(batch.targets.as<std::int32_t>() + index * length, length);
  for (std::size_t t = 0; t < length; ++t) {
    if (starts[t + 1] == static_cast<std::int32_t>(t) + 1) targets[t] = ignored_target;
  }
}

bool Loader::is_ready(std::int64_t batch) {
  // A slot is free for this batch only once its previous batch was issued.
  if (batch >= issued_ + static_cast<std::int64_t>(slots_.size())) return false;
  const Slot& slot = slot_of(batch);
  const std::lock_guard lock(mutex_);
  return slot.done == parts_ && !slot.error;
}

// A busy GPU misses nothing: often the batch is late because the ring's buffers wait for that work.
// The wait counts from when the stream is idle.
void Loader::await(std::int64_t batch) {
  Slot& slot = slot_of(batch);
  const auto settled = [&] { return slot.done == parts_ || slot.error != nullptr; };
  std::unique_lock lock(mutex_);
  while (!released_->reached() && !ready_.wait_for(lock, look_again, settled)) {
  }
  const auto start = std::chrono::steady_clock::now();
  ready_.wait(lock, settled);
  wait_seconds_ += seconds_since(start);
  if (slot.error) std::rethrow_exception(slot.error);
}

void Loader::issue(std::int64_t batch, Stream& copy) {
  Slot& slot = slot_of(batch);
  Target& target = target_of(batch);
  const bool bound = bound_documents(slot.host.batch);
  target.batch.document_bounds.data = bound ? target.device.batch.document_bounds.data : nullptr;
  if (!bound && device_.type() == DeviceType::cuda && !std::exchange(crowded_, true))
    log::get("data").info(
        "batch {} has more than {} documents or sequences: attention runs such batches with its "
        "own kernels",
        batch, target.batch.document_bounds.count() - 1);
  copy.wait(*released_);
  const TraceSpan span(TraceKind::copy, copy, "batch to the device");
  device_.copy(copy, target.device.buffer.data(), slot.host.buffer.data(),
               slot.host.buffer.bytes());
  copy.record(*slot.copied);
  copy.record(*target.arrived);
  {
    const std::lock_guard lock(mutex_);
    slot.done = 0;
    ++issued_;
  }
  room_.notify_all();
}

// Batches that were read but not issued yet.
std::int64_t Loader::queued() {
  const std::lock_guard lock(mutex_);
  return std::ranges::count_if(slots_, [&](const Slot& slot) { return slot.done == parts_; });
}

const Batch& Loader::next(Stream& copy, Stream& compute) {
  if (HostTrace::on()) HostTrace::count("batches that are ready", queued());
  compute.record(*released_);
  wait_seconds_ += 1e-3 * test_delay(DelayPlace::batch);
  if (issued_ == next_) {
    await(next_);
    issue(next_, copy);
  }
  compute.wait(*target_of(next_).arrived);
  if (is_ready(next_ + 1)) issue(next_ + 1, copy);
  return target_of(next_++).batch;
}

}  // namespace trireme
