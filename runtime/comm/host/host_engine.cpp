// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/host_engine.h"

#include <algorithm>
#include <cstring>

#include "runtime/comm/host/reduce.h"

namespace trireme {
namespace {

// Below this, one exchange of whole tensors beats two of slices.
constexpr std::size_t whole_bytes = 4096;
// Larger reductions take several rounds, which bounds the scratch memory.
constexpr std::size_t round_bytes = std::size_t{32} << 20;
constexpr std::size_t slice_alignment = 64;
constexpr std::size_t usual_group = 64;

struct Range {
  std::int64_t begin;
  std::int64_t count;
};

Range slice_range(std::int64_t count, std::int64_t slice, int owner) {
  const std::int64_t begin = std::min(count, slice * owner);
  return {begin, std::min(slice, count - begin)};
}

std::size_t scaled(std::int64_t count, DType dtype) {
  return static_cast<std::size_t>(count) * size_of(dtype);
}

}  // namespace

HostEngine::HostEngine(std::unique_ptr<Transfers> transfers)
    : transfers_(std::move(transfers)), rank_(transfers_->rank()), size_(transfers_->size()) {
  reductions_.reserve(usual_group);
  inputs_.resize(static_cast<std::size_t>(size_));
}

void HostEngine::start(const Call& call) {
  switch (call.verb) {
    case Verb::all_reduce:
    case Verb::reduce_scatter:
      return add_reduction(call);
    case Verb::all_gather:
      return gather(call);
    case Verb::all_to_all:
      return exchange(call);
    case Verb::broadcast:
      return transfers_->broadcast(call.out, call.bytes(), call.peer);
    case Verb::send:
      return transfers_->send(call.in, call.bytes(), call.peer, MessageTag::user);
    case Verb::recv:
      return transfers_->receive(call.out, call.bytes(), call.peer, MessageTag::user);
  }
}

void HostEngine::finish() {
  waited_ += transfers_->wait_all();
  while (active_ > 0) {
    for (std::size_t i = 0; i < active_; ++i)
      combine(reductions_[i]);
    for (std::size_t i = 0; i < active_; ++i)
      post_results(reductions_[i]);
    waited_ += transfers_->wait_all();
    // Reductions with rounds left move to the front; all ranks agree on which those are.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < active_; ++i) {
      if (!advance(reductions_[i])) continue;
      if (kept != i) std::swap(reductions_[kept], reductions_[i]);
      ++kept;
    }
    active_ = kept;
    for (std::size_t i = 0; i < active_; ++i)
      post_slices(reductions_[i]);
    waited_ += transfers_->wait_all();
  }
}

void HostEngine::gather(const Call& call) {
  const std::size_t bytes = scaled(call.in_count, call.dtype);
  if (bytes == 0) return;
  std::byte* const own = call.out + bytes * static_cast<std::size_t>(rank_);
  // Copied first, because in place the input may overlap where a peer's part arrives.
  if (own != call.in) std::memmove(own, call.in, bytes);
  for (int step = 1; step < size_; ++step) {
    const int from = peer(size_ - step);
    transfers_->receive(call.out + bytes * static_cast<std::size_t>(from), bytes, from,
                        MessageTag::collective);
  }
  for (int step = 1; step < size_; ++step) {
    transfers_->send(own, bytes, peer(step), MessageTag::collective);
  }
}

void HostEngine::exchange(const Call& call) {
  const std::size_t bytes = scaled(call.in_count / size_, call.dtype);
  if (bytes == 0) return;
  const auto offset = [&](int rank) { return bytes * static_cast<std::size_t>(rank); };
  for (int step = 1; step < size_; ++step) {
    const int from = peer(size_ - step);
    transfers_->receive(call.out + offset(from), bytes, from, MessageTag::collective);
  }
  for (int step = 1; step < size_; ++step) {
    const int to = peer(step);
    transfers_->send(call.in + offset(to), bytes, to, MessageTag::collective);
  }
  std::memcpy(call.out + offset(rank_), call.in + offset(rank_), bytes);
}

void HostEngine::add_reduction(const Call& call) {
  if (call.count() == 0) return;
  if (active_ == reductions_.size()) reductions_.emplace_back();
  Reduction& reduction = reductions_[active_++];
  reduction.call = call;
  reduction.begin = 0;
  reduction.count = 0;
  static_cast<void>(advance(reduction));
  post_slices(reduction);
}

// Moves to the next round. reduce_scatter's rounds take the same range of every slice, so its
// `begin` and `slice` count within slices; all_reduce's rounds are consecutive ranges, each cut
// into slices.
bool HostEngine::advance(Reduction& reduction) {
  const Call& call = reduction.call;
  const auto round = static_cast<std::int64_t>(round_bytes / size_of(call.dtype));
  reduction.begin += reduction.count;
  const std::int64_t left = call.out_count - reduction.begin;
  if (call.verb == Verb::reduce_scatter) {
    reduction.count = std::min(left, std::max<std::int64_t>(1, round / size_));
    reduction.slice = reduction.count;
    reduction.whole = false;
  } else {
    reduction.count = std::min(left, round);
    const auto step = static_cast<std::int64_t>(slice_alignment / size_of(call.dtype));
    const std::int64_t even = (reduction.count + size_ - 1) / size_;
    reduction.slice = (even + step - 1) / step * step;
    reduction.whole = scaled(reduction.count, call.dtype) <= whole_bytes;
  }
  return left > 0;
}

void HostEngine::post_slices(Reduction& reduction) {
  const Call& call = reduction.call;
  const bool scatter = call.verb == Verb::reduce_scatter;
  // The part of this round that `owner` combines.
  const auto part = [&](int owner) -> Range {
    if (scatter) return {call.out_count * owner + reduction.begin, reduction.count};
    if (reduction.whole) return {reduction.begin, reduction.count};
    const Range range = slice_range(reduction.count, reduction.slice, owner);
    return {reduction.begin + range.begin, range.count};
  };
  const Range own = part(rank_);
  const std::size_t own_bytes = scaled(own.count, call.dtype);
  const std::size_t needed = own_bytes * static_cast<std::size_t>(size_ - 1);
  if (reduction.scratch.size() < needed) reduction.scratch.resize(needed);
  for (int step = 1; step < size_; ++step) {
    const int from = peer(size_ - step);
    const auto slot = static_cast<std::size_t>(from < rank_ ? from : from - 1);
    transfers_->receive(reduction.scratch.data() + slot * own_bytes, own_bytes, from,
                        MessageTag::collective);
  }
  for (int step = 1; step < size_; ++step) {
    const int to = peer(step);
    const Range range = part(to);
    transfers_->send(call.in + scaled(range.begin, call.dtype), scaled(range.count, call.dtype), to,
                     MessageTag::collective);
  }
}

void HostEngine::combine(Reduction& reduction) {
  const Call& call = reduction.call;
  Range own{reduction.begin, reduction.count};
  std::int64_t in_begin = own.begin;
  if (call.verb == Verb::reduce_scatter) {
    in_begin = call.out_count * rank_ + own.begin;
  } else if (!reduction.whole) {
    own = slice_range(reduction.count, reduction.slice, rank_);
    own.begin += reduction.begin;
    in_begin = own.begin;
  }
  const std::size_t bytes = scaled(own.count, call.dtype);
  for (int from = 0; from < size_; ++from) {
    const auto slot = static_cast<std::size_t>(from < rank_ ? from : from - 1);
    inputs_[static_cast<std::size_t>(from)] = from == rank_
                                                  ? call.in + scaled(in_begin, call.dtype)
                                                  : reduction.scratch.data() + slot * bytes;
  }
  reduce_tree(call.dtype, call.op, inputs_, call.out + scaled(own.begin, call.dtype), own.count,
              static_cast<std::size_t>(call.doubled));
}

void HostEngine::post_results(const Reduction& reduction) {
  const Call& call = reduction.call;
  if (call.verb == Verb::reduce_scatter || reduction.whole) return;
  const auto result = [&](int owner) {
    const Range range = slice_range(reduction.count, reduction.slice, owner);
    return Range{reduction.begin + range.begin, range.count};
  };
  for (int step = 1; step < size_; ++step) {
    const int from = peer(size_ - step);
    const Range range = result(from);
    transfers_->receive(call.out + scaled(range.begin, call.dtype), scaled(range.count, call.dtype),
                        from, MessageTag::collective);
  }
  const Range own = result(rank_);
  for (int step = 1; step < size_; ++step) {
    transfers_->send(call.out + scaled(own.begin, call.dtype), scaled(own.count, call.dtype),
                     peer(step), MessageTag::collective);
  }
}

}  // namespace trireme
