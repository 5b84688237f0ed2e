// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/param_gatherer.h"

#include <algorithm>

#include "runtime/comm/comm_label.h"

namespace trireme {

ParamGatherer::ParamGatherer(Device& device, Communicator& group, ParamStore& params,
                             Stream& compute, Stream& comm, StallClock* stalls,
                             Communicator* experts)
    : group_(group),
      experts_(experts == nullptr ? group : *experts),
      params_(params),
      compute_(compute),
      comm_(comm),
      stalls_(stalls),
      updated_(device.make_event()) {
  const int stage = params.options().zero.stage;
  const std::size_t events = stage >= 3   ? static_cast<std::size_t>(ParamStore::param_buffers)
                             : stage >= 1 ? params.layout().buckets().size()
                                          : 0;
  for (std::size_t i = 0; i < events; ++i)
    gathered_.push_back(device.make_event());
  pending_.assign(events, false);
  for (std::size_t i = 0; i < params.layout().buckets().size(); ++i)
    labels_.push_back("parameters of " + params.layout().describe_bucket(i));
  if (stage >= 3) {
    unit_in_.assign(events, -1);
    used_.assign(events, 0);
  }
}

// Matrices are only read rounded: owners round them, below stage 3 in the update. Norms and biases
// are read in fp32.
void ParamGatherer::gather(std::size_t index) {
  const Bucket& bucket = params_.layout().buckets()[index];
  const ScopedCommLabel label(labels_[index]);
  Communicator& group = bucket.expert ? experts_ : group_;
  // Data ranks that share experts may each hold all of theirs.
  const bool alone = bucket.expert && &experts_ != &group_ && experts_.size() == 1;
  if (alone && params_.options().zero.stage < 3) return;
  if (bucket.matrices) {
    const ParamArena& copies = params_.compute_copies();
    const Tensor own = params_.options().zero.stage >= 3 ? params_.refresh_own(comm_, bucket)
                                                         : copies.owned(bucket);
    group.all_gather(comm_, own, copies.bucket(bucket));
    return;
  }
  group.all_gather(comm_, params_.masters().owned(bucket), params_.masters().bucket(bucket));
}

void ParamGatherer::after_update() {
  const int stage = params_.options().zero.stage;
  if (stage == 0) return;
  if (stage >= 3) {
    std::ranges::fill(unit_in_, -1);
    return;
  }
  params_.note_gathered();
  compute_.record(*updated_);
  comm_.wait(*updated_);
  const auto buckets = params_.layout().buckets();
  for (std::size_t i = buckets.size(); i-- > 0;) {
    if (buckets[i].kind != ParamKind::weight) continue;
    gather(i);
    comm_.record(*gathered_[i]);
    pending_[i] = true;
  }
}

void ParamGatherer::complete(std::size_t bucket) {
  if (!pending_[bucket]) return;
  pending_[bucket] = false;
  wait_for_comm(compute_, *gathered_[bucket], stalls_, StallCause::gather);
  params_.refresh_compute(compute_, params_.layout().buckets()[bucket]);
}

void ParamGatherer::before_use(int unit, int next) {
  const int stage = params_.options().zero.stage;
  if (stage == 0) return;
  const auto buckets = params_.layout().buckets();
  if (stage < 3) {
    if (params_.slices_missing()) after_update();
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      if (buckets[i].kind == ParamKind::weight && buckets[i].units.contains(unit)) complete(i);
    }
    return;
  }
  fetch(unit);
  if (const std::size_t at = buffer_of(unit); at < pending_.size() && pending_[at]) {
    pending_[at] = false;
    wait_for_comm(compute_, *gathered_[at], stalls_, StallCause::gather);
    for (const Bucket& bucket : buckets) {
      if (bucket.units.contains(unit)) params_.refresh_compute(compute_, bucket);
    }
  }
  if (next >= 0) fetch(next);
}

std::size_t ParamGatherer::buffer_of(int unit) const {
  return static_cast<std::size_t>(std::ranges::find(unit_in_, unit) - unit_in_.begin());
}

// Fetches into the least recently requested buffer, which is never that of the current layer.
void ParamGatherer::fetch(int unit) {
  if (params_.layout().unit_weights(unit).count == 0) return;
  ++clock_;
  if (const std::size_t there = buffer_of(unit); there < unit_in_.size()) {
    used_[there] = clock_;
    return;
  }
  const auto buffer = static_cast<std::size_t>(std::ranges::min_element(used_) - used_.begin());
  used_[buffer] = clock_;
  params_.place_params(unit, static_cast<int>(buffer));
  unit_in_[buffer] = unit;
  pending_[buffer] = true;
  // All work that used this buffer, and the previous update, is already in the compute stream.
  compute_.record(*updated_);
  comm_.wait(*updated_);
  const auto buckets = params_.layout().buckets();
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].kind == ParamKind::weight && buckets[i].units.contains(unit)) gather(i);
  }
  comm_.record(*gathered_[buffer]);
}

void ParamGatherer::finish() {
  if (params_.options().zero.stage >= 3) return;
  if (params_.slices_missing()) after_update();
  for (std::size_t i = 0; i < pending_.size(); ++i)
    complete(i);
}

void ParamGatherer::forget() {
  pending_.assign(pending_.size(), false);
  std::ranges::fill(unit_in_, -1);
}

}  // namespace trireme
