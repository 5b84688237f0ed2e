// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/grad_reducer.h"

namespace trireme {

std::vector<Bucket> make_buckets(const ParamStore& params, std::int64_t target_elements,
                                 std::vector<int>& bucket_of) {
  std::vector<Bucket> buckets;
  bucket_of.assign(params.specs().size(), -1);
  for (const ParamId id : params.order()) {
    const std::int64_t first = params.offset(id);
    if (buckets.empty() || first - buckets.back().first >= target_elements)
      buckets.push_back({first, 0, 0});
    ++buckets.back().params;
    bucket_of[static_cast<std::size_t>(id.index)] = static_cast<int>(buckets.size()) - 1;
  }
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::int64_t end = i + 1 < buckets.size() ? buckets[i + 1].first : params.element_count();
    buckets[i].count = end - buckets[i].first;
  }
  return buckets;
}

GradReducer::GradReducer(Device& device, Communicator& group, const ParamStore& params,
                         Stream& compute, Stream& comm, ReducerMode mode, std::int64_t bucket_bytes)
    : group_(group),
      params_(params),
      compute_(compute),
      comm_(comm),
      mode_(mode),
      buckets_(make_buckets(params, bucket_bytes / static_cast<std::int64_t>(sizeof(float)),
                            bucket_of_)),
      missing_(buckets_.size()),
      gradients_there_(device.make_event()),
      reduced_(device.make_event()) {}

void GradReducer::begin() {
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    missing_[i] = buckets_[i].params;
}

void GradReducer::ready(ParamId id) {
  const auto bucket = static_cast<std::size_t>(bucket_of_[static_cast<std::size_t>(id.index)]);
  TRIREME_EXPECTS(missing_[bucket] > 0, "parameter {} reported twice in one backward",
                  params_.specs()[static_cast<std::size_t>(id.index)].name);
  if (--missing_[bucket] > 0 || mode_ == ReducerMode::inline_after_backward) return;
  launch(bucket);
}

// All collectives of a group go to one stream: two streams would not keep the same order on every
// rank.
void GradReducer::launch(std::size_t bucket) {
  if (group_.size() == 1) return;
  compute_.record(*gradients_there_);
  comm_.wait(*gradients_there_);
  const Tensor range = params_.gradients().range(buckets_[bucket].first, buckets_[bucket].count);
  group_.all_reduce(comm_, range, range, ReduceOp::sum);
}

void GradReducer::finish() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    TRIREME_EXPECTS(missing_[i] == 0, "{} of {} gradients of bucket {} were never reported",
                    missing_[i], buckets_[i].params, i);
  }
  if (mode_ == ReducerMode::inline_after_backward) {
    for (std::size_t i = 0; i < buckets_.size(); ++i)
      launch(i);
  }
  comm_.record(*reduced_);
  compute_.wait(*reduced_);
}

}  // namespace trireme
