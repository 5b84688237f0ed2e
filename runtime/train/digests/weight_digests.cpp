// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/digests/weight_digests.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/checksum.h"
#include "runtime/base/test_hooks.h"
#include "runtime/comm/comm_label.h"
#include "runtime/comm/host_stream.h"

namespace trireme {

// Leading axes of a block are contiguous in the whole tensor, the rest lies in rows (Blocking).
std::vector<DigestPart> digest_parts(const Blocking& blocking, std::int64_t block,
                                     std::int64_t first, std::int64_t count) {
  const std::int64_t lead = blocking.blocks == 1 ? first + count
                            : blocking.lead > 1  ? blocking.lead * blocking.run
                                                 : 0;
  const std::int64_t in_front = std::clamp(lead - first, std::int64_t{0}, count);
  std::vector<DigestPart> parts;
  if (in_front > 0)
    parts.push_back(
        {0, in_front, {.base = static_cast<std::uint64_t>(blocking.logical(block, first))}});
  if (in_front < count)
    parts.push_back({in_front,
                     count - in_front,
                     {.base = static_cast<std::uint64_t>(block * blocking.run),
                      .width = blocking.run,
                      .stride = blocking.run * blocking.blocks,
                      .first = first + in_front}});
  return parts;
}

WeightDigests::WeightDigests(Device& device, ParamStore& params, const ProcessMesh& mesh,
                             std::span<const PlacedParam> placed, int turns)
    : device_(device), mesh_(mesh), turns_(turns) {
  const ParamLayout& layout = params.layout();
  const std::vector<ManifestTensor> tensors = manifest_tensors(placed, layout.splits());
  for (const ManifestTensor& tensor : tensors) {
    names_.push_back(tensor.name);
    bases_.push_back(checksum_of(tensor.name));
  }
  choose_turns(tensors);
  const CheckpointValues values{.params = params};
  for (const OwnSlice& slice : own_slices(layout, mesh, tensors)) {
    const Held held =
        held_of(values, ValueKind::model, layout.buckets()[static_cast<std::size_t>(slice.bucket)]);
    add_slice(slice, tensors[static_cast<std::size_t>(slice.slice.tensor)].blocking,
              held.values.range(slice.element - held.first, slice.slice.count));
  }
  digests_ = Buffer(device, names_.size() * sizeof(std::uint64_t), MemoryKind::device);
  host_ = Buffer(device, digests_.bytes(), MemoryKind::host);
  sums_ = Buffer(device, 2 * sizeof(std::uint64_t), MemoryKind::device);
  sums_host_ = Buffer(device, sums_.bytes(), MemoryKind::host);
}

// Largest first, each to the turn with the least so far: equal on every layout.
void WeightDigests::choose_turns(std::span<const ManifestTensor> tensors) {
  turns_ = std::clamp(turns_, 1, std::max(1, static_cast<int>(tensors.size())));
  std::vector<std::size_t> by_size(tensors.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, [&](std::size_t a, std::size_t b) {
    return tensors[a].shape.count() > tensors[b].shape.count();
  });
  std::vector<std::int64_t> load(static_cast<std::size_t>(turns_));
  turn_of_.resize(tensors.size());
  for (const std::size_t tensor : by_size) {
    const auto turn = std::ranges::min_element(load) - load.begin();
    turn_of_[tensor] = static_cast<int>(turn);
    load[static_cast<std::size_t>(turn)] += tensors[tensor].shape.count();
  }
}

void WeightDigests::add_slice(const OwnSlice& slice, const Blocking& blocking,
                              const Tensor& values) {
  const auto tensor = static_cast<std::size_t>(slice.slice.tensor);
  for (DigestPart& part :
       digest_parts(blocking, slice.slice.block, slice.slice.first, slice.slice.count)) {
    part.places.base += bases_[tensor];
    regions_.push_back({tensor, values.range(part.offset, part.count), part.places});
  }
}

void WeightDigests::updated(std::int64_t step, Stream& compute, Stream& /*comm*/) {
  if (test_rests(step)) return;
  const Tensor sum = sums_.view(DType::u64, Shape{2}).range(step % 2, 1);
  device_.fill_zero(compute, sum.data, sum.bytes());
  const int turn = static_cast<int>(step % turns_);
  for (const Region& region : regions_)
    if (turn_of_[region.tensor] == turn)
      ops::accumulate_digest(compute, sum, region.values, region.places);
  device_.copy(compute, sums_host_.view(DType::u64, Shape{2}).range(step % 2, 1).data, sum.data,
               sum.bytes());
}

void WeightDigests::read(StepReport& report) {
  report.own.digest = reinterpret_cast<const std::uint64_t*>(sums_host_.data())[report.step % 2];
  report.weight_digest = report.own.digest;
}

std::vector<std::uint64_t> WeightDigests::of_all(Stream& compute) {
  const auto count = static_cast<std::int64_t>(names_.size());
  const Tensor digests = digests_.view(DType::u64, Shape{count});
  device_.fill_zero(compute, digests.data, digests.bytes());
  for (const Region& region : regions_)
    ops::accumulate_digest(compute, digests.range(static_cast<std::int64_t>(region.tensor), 1),
                           region.values, region.places);
  device_.copy(compute, host_.data(), digests.data, host_.bytes());
  compute.synchronize();
  const ScopedCommLabel label("weight digests");
  const HostStream stream;
  const Tensor own = host_.view(DType::u64, Shape{count});
  std::vector<std::uint64_t> all(names_.size());
  const Tensor sums{reinterpret_cast<std::byte*>(all.data()), DType::u64, Shape{count}};
  mesh_.world().all_reduce(*stream, own, sums, ReduceOp::sum);
  return all;
}

std::uint64_t tensor_digest(std::string_view name, std::span<const float> values) {
  return ops::host_digest(values, {.base = checksum_of(name)});
}

}  // namespace trireme
