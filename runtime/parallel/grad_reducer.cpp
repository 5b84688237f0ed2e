// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/grad_reducer.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/comm/comm_label.h"
#include "runtime/comm/timing/stall_clock.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {

// Tree: micro-batch m is added on top of one finished subtree per bit set in m, and every carry of
// m + 1 merges two of equal size. After the last one the remaining subtrees are merged, smallest
// first.
int PartialSums::level(int m) const {
  if (sum == GradientSum::tree) return std::popcount(static_cast<unsigned>(m));
  return sharded ? std::min(m, 1) : 0;
}

int PartialSums::merges(int m) const {
  if (sum == GradientSum::tree)
    return m + 1 == micro_batches ? level(m) : std::countr_one(static_cast<unsigned>(m));
  return level(m);
}

int PartialSums::levels() const {
  int highest = 0;
  for (int m = 0; m < micro_batches; ++m)
    highest = std::max(highest, level(m));
  return highest + 1;
}

int GradReducer::levels(const ReducerOptions& options, int zero_stage) {
  return PartialSums{options.sum, zero_stage >= 2, options.micro_batches}.levels();
}

GradientLeaves GradReducer::leaves(GradientSum sum, int data_ranks, int blocks) {
  if (sum != GradientSum::tree) return {};
  TRIREME_EXPECTS(data_ranks == 1 || blocks == 1, "{} data ranks share experts, with {} blocks",
                  data_ranks, blocks);
  return {.count = std::max(data_ranks, blocks), .experts = data_ranks > 1};
}

GradReducer::GradReducer(Device& device, const ReducerGroups& groups, ParamStore& params,
                         Stream& compute, Stream& comm, const ReducerOptions& options)
    : device_(device),
      all_(groups.zero, groups.replicas),
      params_(params),
      compute_(compute),
      comm_(comm),
      options_(options),
      weights_{options.sum, params.options().zero.stage >= 2, options.micro_batches},
      statistics_{options.sum, false, options.micro_batches},
      leaves_(params.leaves()),
      clock_(device),
      missing_(params.layout().buckets().size()),
      reported_(params.layout().specs().size()),
      buffer_of_unit_(static_cast<std::size_t>(std::max(params.layout().unit_count(), 1)), -1),
      ready_event_(device.make_event()),
      reduced_event_(device.make_event()),
      summed_event_(device.make_event()) {
  TRIREME_EXPECTS(params.options().gradient_levels >= weights_.levels(),
                  "{} levels of partial sums, need {}", params.options().gradient_levels,
                  weights_.levels());
  const int sources = leaves_.experts ? leaves_.count : 1,
            wanted = leaves(options.sum, params.layout().splits().expert_data_ranks(), 1).count;
  TRIREME_EXPECTS(params.layout().expert_elements() == 0 || sources == wanted,
                  "{} sources of experts' gradients, need {}", sources, wanted);
  if (groups.expert_zero != nullptr && groups.expert_zero != &groups.zero)
    of_experts_.emplace(*groups.expert_zero, *groups.expert_replicas);
  if (all_.zero.size() > 1 && all_.replicas.size() > 1)
    second_ = device.make_stream(StreamKind::comm);
  if (options_.chunks.empty()) options_.chunks = {{0, std::max(params.layout().unit_count(), 1)}};
  for (int i = 0; i < ParamStore::gradient_buffers; ++i)
    buffer_free_.push_back(device.make_event());
  buffer_used_.resize(buffer_free_.size());
  const auto buckets = params.layout().buckets();
  for (std::size_t b = 0; b < buckets.size(); ++b)
    labels_.push_back("gradients of " + params.layout().describe_bucket(b));
  for (const UnitRange units : options_.chunks) {
    Chunk chunk{.units = units, .buckets = {}, .weights = {}, .statistics = {}, .apart = {}};
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const Bucket& bucket = buckets[b];
      if (!units.contains(bucket.units.first) || bucket.kind == ParamKind::frozen) continue;
      chunk.buckets.push_back(static_cast<int>(b));
      Span& span = bucket.kind == ParamKind::weight ? chunk.weights : chunk.statistics;
      const std::int64_t first = sharded_gradients() ? bucket.owned : bucket.first;
      const std::int64_t count =
          sharded_gradients() ? params.layout().slice_count(bucket) : bucket.count;
      if (span.count == 0) span.first = first;
      TRIREME_EXPECTS(first == span.first + span.count,
                      "bucket {} is not contiguous with its chunk", b);
      span.count += count;
      if (params.leaves(bucket) == 1) continue;
      const Span apart = span_apart(bucket);
      if (chunk.apart.count == 0) chunk.apart.first = apart.first;
      chunk.apart.count += apart.count;
    }
    chunks_.push_back(std::move(chunk));
  }
  if (options_.sent == DType::f32) return;
  send_rounded(all_, /*experts=*/false);
  if (of_experts_) send_rounded(*of_experts_, /*experts=*/true);
}

void GradReducer::send_rounded(Sums& sums, bool experts) {
  std::int64_t largest = 0;
  for (const Bucket& bucket : params_.layout().buckets()) {
    const bool summed = !of_experts_ || bucket.expert == experts;
    if (bucket.kind == ParamKind::weight && summed) largest = std::max(largest, bucket.count);
  }
  if (largest == 0) return;
  if (sums.zero.size() > 1) sums.in_group.emplace(device_, sums.zero, options_.sent, largest);
  if (sums.replicas.size() > 1)
    sums.over_groups.emplace(device_, sums.replicas, options_.sent, largest / sums.zero.size());
}

void GradReducer::set_micro_batches(int count) {
  options_.micro_batches = weights_.micro_batches = statistics_.micro_batches = count;
}

GradReducer::Span GradReducer::span_apart(const Bucket& bucket) const {
  if (params_.leaves(bucket) == 1) return {};
  return {leaves_.experts ? bucket.experts : bucket.first, bucket.count};
}

Tensor GradReducer::partial(const Span& span, int level, int leaf) const {
  return params_.gradients_of(leaf).held(level).range(span.first, span.count);
}

void GradReducer::zero(Stream& stream, const Span& span, int level, int leaf) {
  if (span.count == 0) return;
  const Tensor sums = partial(span, level, leaf);
  device_.fill_zero(stream, sums.data, sums.bytes());
}

void GradReducer::merge(Stream& stream, const Span& span, int level, int merges, int leaf) {
  if (span.count == 0) return;
  for (int at = level; at > level - merges; --at)
    ops::add_in_place(stream, partial(span, at - 1, leaf), partial(span, at, leaf));
}

// Blocks are joined before they are added to other micro-batches.
void GradReducer::merge_leaves(const Span& weights, const Span& apart, int level, int merges) {
  merge(compute_, weights, level, merges);
  for (int leaf = 1; leaves_.experts && leaf < leaves_.count; ++leaf)
    merge(compute_, apart, level, merges, leaf);
}

// Into leaf 0: the part of the tree that is below this micro-batch, or that the data ranks which
// share experts would form.
void GradReducer::join_leaves(const Bucket& bucket, int level) {
  const auto sum_of = [&](int leaf) {
    return params_.gradients_of(leaf).bucket(bucket, leaf == 0 ? level : 0);
  };
  const int leaves = params_.leaves(bucket);
  for (int step = 1; step < leaves; step *= 2)
    for (int leaf = 0; leaf + step < leaves; leaf += 2 * step)
      ops::add_in_place(compute_, sum_of(leaf), sum_of(leaf + step));
}

// A step begins after join(): earlier work is done, and its events belong to no recorded graph.
void GradReducer::begin_step(std::int64_t step) {
  clock_.begin_step(step);
  buffer_used_.assign(buffer_used_.size(), false);
  for (Chunk& chunk : chunks_) {
    chunk.micro_batch = -1;
    if (options_.sum == GradientSum::tree) continue;
    if (!sharded_gradients()) zero(compute_, chunk.weights, 0);
    zero(compute_, chunk.statistics, 0);
  }
}

void GradReducer::before_forward(int chunk, int micro_batch) {
  const Chunk& here = chunks_[static_cast<std::size_t>(chunk)];
  if (here.statistics.count == 0) return;
  const int level = statistics_.level(micro_batch);
  params_.select_level(here.units, ParamKind::statistic, level);
  if (options_.sum != GradientSum::tree) return;
  if (ranks_first()) join();
  zero(compute_, here.statistics, level);
}

void GradReducer::after_forward(int chunk, int micro_batch) {
  const Span& statistics = chunks_[static_cast<std::size_t>(chunk)].statistics;
  if (statistics.count == 0) return;
  const int level = statistics_.level(micro_batch), merges = statistics_.merges(micro_batch);
  if (!ranks_first()) return merge(compute_, statistics, level, merges);
  hand_over();
  const Tensor sums = partial(statistics, level);
  const ScopedCommLabel label("running statistics");
  all_.zero.all_reduce(comm_, sums, sums, ReduceOp::sum);
  merge(comm_, statistics, level, merges);
}

void GradReducer::before_backward(int chunk, int micro_batch) {
  Chunk& here = chunks_[static_cast<std::size_t>(chunk)];
  here.micro_batch = micro_batch;
  const auto buckets = params_.layout().buckets();
  for (const int b : here.buckets)
    missing_[static_cast<std::size_t>(b)] = buckets[static_cast<std::size_t>(b)].params;
  for (const ParamId id : params_.layout().order())
    if (here.units.contains(params_.layout().unit_of(id)))
      reported_[params_.layout().at(id)] = false;
  if (sharded_gradients()) return;
  const int level = weights_.level(micro_batch);
  params_.select_level(here.units, ParamKind::weight, level);
  if (options_.sum == GradientSum::tree) zero(compute_, here.weights, level);
  for (int leaf = 1; leaf < leaves_.count; ++leaf)
    zero(compute_, here.apart, leaves_.experts ? level : 0, leaf);
}

// Stages 2 and 3: assigns memory for the gradients of one more layer, once the comm stream is done
// with its previous contents.
void GradReducer::open_unit(int unit) {
  if (!sharded_gradients() || params_.layout().unit_weights(unit).count == 0) return;
  const int buffer = next_buffer_;
  next_buffer_ = (next_buffer_ + 1) % ParamStore::gradient_buffers;
  if (buffer_used_[static_cast<std::size_t>(buffer)])
    wait_for_comm(compute_, *buffer_free_[static_cast<std::size_t>(buffer)], nullptr,
                  StallCause::sum);
  const Tensor gradients = params_.place_gradients(unit, buffer);
  device_.fill_zero(compute_, gradients.data, gradients.bytes());
  for (const Bucket& bucket : params_.layout().buckets()) {
    if (bucket.kind != ParamKind::weight || !bucket.units.contains(unit)) continue;
    for (int leaf = 1; leaf < params_.leaves(bucket); ++leaf) {
      const Tensor own = params_.gradients_of(leaf).bucket(bucket);
      device_.fill_zero(compute_, own.data, own.bytes());
    }
  }
  buffer_of_unit_[static_cast<std::size_t>(unit)] = buffer;
}

GradReducer::Chunk& GradReducer::chunk_of(int unit) {
  const auto found = std::ranges::find_if(
      chunks_, [unit](const Chunk& chunk) { return chunk.units.contains(unit); });
  TRIREME_EXPECTS(found != chunks_.end(), "unit {} is in no chunk", unit);
  return *found;
}

void GradReducer::ready(ParamId id) {
  const ParamLayout& layout = params_.layout();
  const int index = layout.bucket_of(id);
  const Bucket& bucket = layout.buckets()[static_cast<std::size_t>(index)];
  const int micro_batch = chunk_of(layout.unit_of(id)).micro_batch;
  int& missing = missing_[static_cast<std::size_t>(index)];
  TRIREME_EXPECTS(missing > 0 && !reported_[layout.at(id)],
                  "parameter {} reported twice in one backward", layout.spec(id).name);
  reported_[layout.at(id)] = true;
  if (--missing > 0) return;
  const int level = weights_.level(micro_batch);
  if (sharded_gradients() || !leaves_.experts) join_leaves(bucket, sharded_gradients() ? 0 : level);
  if (probe_ != nullptr && bucket.kind == ParamKind::weight)
    for (int source = 0; source < (leaves_.experts ? params_.leaves(bucket) : 1); ++source)
      probe_->add_micro_batch(compute_, index, params_.gradients_of(source).bucket(bucket, level),
                              source);
  const ScopedCommLabel label(labels_[static_cast<std::size_t>(index)]);
  if (sharded_gradients() && bucket.kind == ParamKind::weight) return scatter(bucket, micro_batch);
  if (last(micro_batch) && options_.mode == ReducerMode::overlapped) launch(bucket, micro_batch);
}

// All collectives of a group use one stream: two could be ordered differently on different ranks.
void GradReducer::hand_over() {
  compute_.record(*ready_event_);
  comm_.wait(*ready_event_);
}

// Reduces a complete bucket of weights into this rank's slice of partial sum `level`, or
// statistics.
void GradReducer::sum_in_group(const Bucket& bucket, int level) {
  const Sums& sums = sums_of(bucket);
  const Tensor whole = params_.gradients().bucket(bucket);
  clock_.start(comm_);
  if (bucket.kind != ParamKind::weight) {
    sums.zero.all_reduce(comm_, whole, whole, ReduceOp::sum);
  } else if (const Tensor own = params_.gradients().owned(bucket, level); sums.in_group) {
    sums.in_group->reduce_scatter(comm_, whole, own);
  } else {
    sums.zero.reduce_scatter(comm_, whole, own, ReduceOp::sum);
  }
  clock_.stop(comm_);
}

void GradReducer::sum_over_groups(const Bucket& bucket, const Tensor& values) {
  const Sums& sums = sums_of(bucket);
  if (sums.replicas.size() == 1) return;
  Stream& stream = second_ ? *second_ : comm_;
  if (second_) {
    comm_.record(*summed_event_);
    second_->wait(*summed_event_);
    second_busy_ = true;
  }
  clock_.start(stream);
  if (bucket.kind == ParamKind::weight && sums.over_groups) {
    sums.over_groups->all_reduce(stream, values);
  } else {
    sums.replicas.all_reduce(stream, values, values, ReduceOp::sum);
  }
  clock_.stop(stream);
}

// The comm stream follows the sums over replicas.
void GradReducer::join_levels() {
  if (!std::exchange(second_busy_, false)) return;
  second_->record(*summed_event_);
  comm_.wait(*summed_event_);
}

void GradReducer::launch(const Bucket& bucket, int micro_batch) {
  const bool weights = bucket.kind == ParamKind::weight;
  if (weights) {
    merge_leaves({bucket.first, bucket.count}, span_apart(bucket), weights_.level(micro_batch),
                 weights_.merges(micro_batch));
    if (leaves_.experts) join_leaves(bucket, 0);
  }
  hand_over();
  if (sums_of(bucket).zero.size() > 1 && (weights || !ranks_first())) sum_in_group(bucket, 0);
  sum_over_groups(bucket, params_.gradients().owned(bucket));
}

void GradReducer::scatter(const Bucket& bucket, int micro_batch) {
  hand_over();
  const int level = weights_.level(micro_batch);
  sum_in_group(bucket, level);
  const auto unit = static_cast<std::size_t>(bucket.units.first);
  const auto buffer = static_cast<std::size_t>(buffer_of_unit_[unit]);
  comm_.record(*buffer_free_[buffer]);
  buffer_used_[buffer] = true;
  if (merges_by_bucket(micro_batch)) {
    const Span own{bucket.owned, params_.layout().slice_count(bucket)};
    merge(comm_, own, level, weights_.merges(micro_batch));
    sum_over_groups(bucket, partial(own, 0));
  }
  if (options_.mode == ReducerMode::inline_after_backward) join();
}

void GradReducer::expect_all_reported(const Chunk& chunk) const {
  const ParamLayout& layout = params_.layout();
  for (const ParamId id : layout.order())
    TRIREME_EXPECTS(!chunk.units.contains(layout.unit_of(id)) || reported_[layout.at(id)] ||
                        missing_[static_cast<std::size_t>(layout.bucket_of(id))] == 0,
                    "parameter {} was never reported in one backward: its layer must call "
                    "Context::ready once its gradient is complete",
                    layout.spec(id).name);
}

void GradReducer::after_backward(int chunk, int micro_batch) {
  const Chunk& here = chunks_[static_cast<std::size_t>(chunk)];
  expect_all_reported(here);
  const int level = weights_.level(micro_batch), merges = weights_.merges(micro_batch);
  if (!sharded_gradients()) {
    if (!last(micro_batch)) merge_leaves(here.weights, here.apart, level, merges);
  } else if (!merges_by_bucket(micro_batch)) {
    merge(comm_, here.weights, level, merges);
  }
}

void GradReducer::finish() {
  const auto buckets = params_.layout().buckets();
  std::ranges::for_each(chunks_, [&](const Chunk& chunk) { expect_all_reported(chunk); });
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const bool waiting = buckets[i].kind != ParamKind::frozen &&
                         options_.mode == ReducerMode::inline_after_backward &&
                         !(sharded_gradients() && buckets[i].kind == ParamKind::weight);
    const ScopedCommLabel label(labels_[i]);
    if (waiting) launch(buckets[i], options_.micro_batches - 1);
  }
  join_levels();
}

void GradReducer::join() {
  join_levels();
  comm_.record(*reduced_event_);
  wait_for_comm(compute_, *reduced_event_, nullptr, StallCause::sum);
}

}  // namespace trireme
