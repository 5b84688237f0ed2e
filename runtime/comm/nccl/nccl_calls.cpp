// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/nccl/nccl_calls.h"

#include <algorithm>
#include <bit>

#include "runtime/device/cuda/cuda_stream.h"

namespace trireme {
namespace {

// Below this, one exchange of whole tensors beats two of slices.
constexpr std::size_t whole_bytes = 4096;
// Larger sums take several rounds, which bounds the scratch memory.
constexpr std::size_t round_bytes = std::size_t{32} << 20;
constexpr std::size_t alignment = 64;
constexpr std::size_t usual_group = 64;

std::size_t scaled(std::int64_t count, DType dtype) {
  return static_cast<std::size_t>(count) * size_of(dtype);
}

std::size_t aligned(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

bool is_reduction(Verb verb) {
  return verb == Verb::all_reduce || verb == Verb::reduce_scatter;
}

bool is_floating_point(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16 || dtype == DType::f16;
}

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::u8:
      return ncclUint8;
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::u16:
      break;  // NCCL could move them, as bytes, but not add them
    case DType::u32:
      return ncclUint32;
    case DType::u64:
      return ncclUint64;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
  }
  return ncclNumTypes;
}

ncclRedOp_t operation_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::min:
      return ncclMin;
  }
  return ncclNumOps;
}

}  // namespace

NcclCalls::NcclCalls(NcclHandle& handle, int rank, int size, const SumBlocks& sum_blocks)
    : handle_(handle), rank_(rank), size_(size), sum_blocks_(sum_blocks) {
  works_.reserve(usual_group);
  ordered_.reserve(usual_group);
}

void NcclCalls::add(const Call& call) {
  TRIREME_EXPECTS(!is_reduction(call.verb) || type_of(call.dtype) != ncclNumTypes,
                  "{}: NCCL does not reduce {}", call.to_string(), name_of(call.dtype));
  works_.push_back({.call = call, .way = way_of(call)});
}

NcclCalls::Way NcclCalls::way_of(const Call& call) const {
  if (is_reduction(call.verb) && call.op == ReduceOp::sum && sum_blocks_ &&
      is_floating_point(call.dtype)) {
    return Way::ordered;
  }
  if (rank_ == 0 || call.in != call.out) return Way::direct;
  if (call.verb == Verb::reduce_scatter) return Way::copy_after;
  return call.verb == Verb::all_gather ? Way::gather_first : Way::direct;
}

void NcclCalls::run(Stream& stream) {
  // NCCL also skips empty calls, but launches a kernel.
  std::erase_if(works_, [](const Work& work) { return work.call.count() == 0; });
  if (works_.empty()) return;
  const cudaStream_t handle = CudaStream::of(stream).handle();
  for (Work& work : works_) {
    if (work.way == Way::ordered) static_cast<void>(advance(work));
  }
  place_scratch(stream.device());
  for (const Work& work : works_)
    copy_before(stream, work);
  // NCCL pairs the messages of two ranks by order. Messages of composed collectives come first, in
  // the collectives' order, which all ranks share; the caller's keep their order.
  const auto of_messages = [](const Work& work) {
    return work.way == Way::ordered || work.call.verb == Verb::all_to_all;
  };
  handle_.issue(works_.front().call, [&](ncclComm_t comm) {
    for (const bool first : {true, false}) {
      for (const Work& work : works_) {
        if (of_messages(work) == first) post(comm, handle, work);
      }
    }
  });
  for (const Work& work : works_) {
    if (work.way == Way::copy_after) {
      stream.device().copy(stream, work.call.out, work.scratch,
                           scaled(work.call.out_count, work.call.dtype));
    }
    if (work.way == Way::ordered) ordered_.push_back(work);
  }
  works_.clear();
  run_ordered(stream);
}

void NcclCalls::run_ordered(Stream& stream) {
  const cudaStream_t handle = CudaStream::of(stream).handle();
  while (!ordered_.empty()) {
    const Call first = ordered_.front().call;
    bool results = false;
    for (const Work& work : ordered_) {
      sum(stream, work);
      results = results || (work.call.verb == Verb::all_reduce && !gathers_whole(work));
    }
    if (results) {
      handle_.issue(first, [&](ncclComm_t comm) {
        for (const Work& work : ordered_)
          post_sums(comm, handle, work);
      });
    }
    std::erase_if(ordered_, [&](Work& work) { return !advance(work); });
    if (ordered_.empty()) return;
    for (const Work& work : ordered_)
      copy_before(stream, work);
    handle_.issue(ordered_.front().call, [&](ncclComm_t comm) {
      for (const Work& work : ordered_)
        post_parts(comm, handle, work);
    });
  }
}

// Starts the next round. reduce_scatter's rounds take the same range of every slice; all_reduce's
// rounds are consecutive ranges, each cut into slices.
bool NcclCalls::advance(Work& work) const {
  const Call& call = work.call;
  const auto round = static_cast<std::int64_t>(round_bytes / size_of(call.dtype));
  work.begin += work.count;
  const std::int64_t left = call.out_count - work.begin;
  if (call.verb == Verb::reduce_scatter) {
    work.count = std::min(left, std::max<std::int64_t>(1, round / size_));
    work.slice = work.count;
  } else {
    work.count = std::min(left, round);
    const auto step = static_cast<std::int64_t>(alignment / size_of(call.dtype));
    work.slice = ((work.count + size_ - 1) / size_ + step - 1) / step * step;
  }
  return left > 0;
}

bool NcclCalls::gathers_whole(const Work& work) const {
  return work.call.verb == Verb::all_reduce && scaled(work.count, work.call.dtype) <= whole_bytes;
}

// The part of the input that `owner` sums in this round.
NcclCalls::Range NcclCalls::part_of(const Work& work, int owner) const {
  if (work.call.verb == Verb::reduce_scatter) {
    return {work.call.out_count * owner + work.begin, work.count};
  }
  if (gathers_whole(work)) return {work.begin, work.count};
  const std::int64_t first = std::min(work.count, work.slice * owner);
  return {work.begin + first, std::min(work.slice, work.count - first)};
}

std::size_t NcclCalls::scratch_bytes(const Work& work) const {
  if (work.way == Way::copy_after) return scaled(work.call.out_count, work.call.dtype);
  if (work.way != Way::ordered) return 0;
  return scaled(part_of(work, rank_).count, work.call.dtype) * static_cast<std::size_t>(size_);
}

// The first round of an ordered sum is the largest.
void NcclCalls::place_scratch(Device& device) {
  std::size_t needed = 0;
  for (const Work& work : works_)
    needed += aligned(scratch_bytes(work));
  if (needed == 0) return;
  if (scratch_.empty() || scratch_.back().bytes() < needed) {
    const MemoryScope scope(MemoryRole::workspace);
    scratch_.emplace_back(device, std::bit_ceil(needed), MemoryKind::device);
  }
  std::byte* next = scratch_.back().data();
  for (Work& work : works_) {
    work.scratch = next;
    next += aligned(scratch_bytes(work));
  }
}

void NcclCalls::copy_before(Stream& stream, const Work& work) const {
  const Call& call = work.call;
  const auto rank = static_cast<std::size_t>(rank_);
  if (work.way == Way::gather_first) {
    const std::size_t bytes = scaled(call.in_count, call.dtype);
    stream.device().copy(stream, call.out + bytes * rank, call.in, bytes);
  }
  if (work.way == Way::ordered) {
    const Range own = part_of(work, rank_);
    const std::size_t bytes = scaled(own.count, call.dtype);
    stream.device().copy(stream, work.scratch + bytes * rank,
                         call.in + scaled(own.begin, call.dtype), bytes);
  }
}

void NcclCalls::post(ncclComm_t comm, cudaStream_t stream, const Work& work) const {
  switch (work.way) {
    case Way::ordered:
      return post_parts(comm, stream, work);
    case Way::copy_after:
      return post_direct(comm, stream, work.call, work.scratch);
    case Way::gather_first: {
      Call call = work.call;
      call.in = call.out + scaled(call.in_count, call.dtype) * static_cast<std::size_t>(rank_);
      return post_direct(comm, stream, call, call.out);
    }
    case Way::direct:
      return post_direct(comm, stream, work.call, work.call.out);
  }
}

// Pure data movement uses bytes.
void NcclCalls::post_direct(ncclComm_t comm, cudaStream_t stream, const Call& call,
                            std::byte* out) const {
  const auto in_bytes = scaled(call.in_count, call.dtype);
  switch (call.verb) {
    case Verb::all_reduce:
    case Verb::reduce_scatter: {
      const auto count = static_cast<std::size_t>(call.out_count);
      const auto reduce = call.verb == Verb::all_reduce ? ncclAllReduce : ncclReduceScatter;
      return TRIREME_NCCL(
          reduce(call.in, out, count, type_of(call.dtype), operation_of(call.op), comm, stream));
    }
    case Verb::all_gather:
      return TRIREME_NCCL(ncclAllGather(call.in, out, in_bytes, ncclUint8, comm, stream));
    case Verb::all_to_all:
      return TRIREME_NCCL(ncclAlltoAll(call.in, out, in_bytes / static_cast<std::size_t>(size_),
                                       ncclUint8, comm, stream));
    case Verb::broadcast:
      return TRIREME_NCCL(
          ncclBroadcast(call.in, out, in_bytes, ncclUint8, call.peer, comm, stream));
    case Verb::send:
      return TRIREME_NCCL(ncclSend(call.in, in_bytes, ncclUint8, call.peer, comm, stream));
    case Verb::recv:
      return TRIREME_NCCL(ncclRecv(out, call.bytes(), ncclUint8, call.peer, comm, stream));
  }
}

void NcclCalls::post_parts(ncclComm_t comm, cudaStream_t stream, const Work& work) const {
  const Call& call = work.call;
  const std::size_t own_bytes = scaled(part_of(work, rank_).count, call.dtype);
  for (int step = 1; step < size_; ++step) {
    const int from = (rank_ + size_ - step) % size_;
    const int to = (rank_ + step) % size_;
    const Range theirs = part_of(work, to);
    const std::size_t bytes = scaled(theirs.count, call.dtype);
    if (own_bytes > 0) {
      TRIREME_NCCL(ncclRecv(work.scratch + own_bytes * static_cast<std::size_t>(from), own_bytes,
                            ncclUint8, from, comm, stream));
    }
    if (bytes > 0) {
      TRIREME_NCCL(
          ncclSend(call.in + scaled(theirs.begin, call.dtype), bytes, ncclUint8, to, comm, stream));
    }
  }
}

void NcclCalls::sum(Stream& stream, const Work& work) const {
  const Call& call = work.call;
  const Range own = part_of(work, rank_);
  if (own.count == 0) return;
  const std::int64_t begin = call.verb == Verb::reduce_scatter ? work.begin : own.begin;
  sum_blocks_(stream, {call.out + scaled(begin, call.dtype), call.dtype, Shape{own.count}},
              {work.scratch, call.dtype, Shape{size_, own.count}}, call.doubled);
}

void NcclCalls::post_sums(ncclComm_t comm, cudaStream_t stream, const Work& work) const {
  const Call& call = work.call;
  if (call.verb != Verb::all_reduce || gathers_whole(work)) return;
  const auto at = [&](const Range& range) { return call.out + scaled(range.begin, call.dtype); };
  const Range own = part_of(work, rank_);
  if (work.slice * size_ == work.count) {
    return TRIREME_NCCL(ncclAllGather(at(own), call.out + scaled(work.begin, call.dtype),
                                      scaled(own.count, call.dtype), ncclUint8, comm, stream));
  }
  for (int owner = 0; owner < size_; ++owner) {
    const Range range = part_of(work, owner);
    if (range.count == 0) continue;
    TRIREME_NCCL(ncclBroadcast(at(range), at(range), scaled(range.count, call.dtype), ncclUint8,
                               owner, comm, stream));
  }
}

}  // namespace trireme
