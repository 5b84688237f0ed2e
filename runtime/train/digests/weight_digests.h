// SPDX-License-Identifier: Apache-2.0
// Layout-independent digests of the weights: sums, mod 2^64, over all elements of a mix of the
// tensor's name, the element's place in the whole tensor and its bits. Each rank adds the elements
// that it would write to a checkpoint: every element once over all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/slices.h"
#include "runtime/ops/update/digest.h"
#include "runtime/train/step/step_meter.h"

namespace trireme {

// Elements [offset, offset + count) of a slice, and their places in the whole tensor.
struct DigestPart {
  std::int64_t offset = 0, count = 0;
  ops::DigestPlaces places{};
};

// For elements [first, first + count) of a block of a tensor.
[[nodiscard]] std::vector<DigestPart> digest_parts(const Blocking& blocking, std::int64_t block,
                                                   std::int64_t first, std::int64_t count);

class WeightDigests final : public StepMeter {
 public:
  // `placed`: every parameter of the chain. `turns`: number of groups of tensors of about equal
  // size, one of which a step digests, in turn; at most the number of tensors. Device, parameters
  // and mesh must outlive this.
  WeightDigests(Device& device, ParamStore& params, const ProcessMesh& mesh,
                std::span<const PlacedParam> placed, int turns);

  // This rank's part of the digest of the step's turn.
  void updated(std::int64_t step, Stream& compute, Stream& comm) override;
  [[nodiscard]] bool recordable() const override { return false; }
  void read(StepReport& report) override;
  // The digests of all tensors, in the order of names(). This rank's values must be final on
  // `compute`. Collective over the mesh; blocks the host.
  [[nodiscard]] std::vector<std::uint64_t> of_all(Stream& compute);
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  // The steps in which a tensor is digested (turn = step mod turns()).
  [[nodiscard]] int turns() const { return turns_; }

 private:
  // Some of this rank's elements of a tensor.
  struct Region {
    std::size_t tensor = 0;
    Tensor values{};
    ops::DigestPlaces places{};
  };
  void add_slice(const OwnSlice& slice, const Blocking& blocking, const Tensor& values);
  void choose_turns(std::span<const ManifestTensor> tensors);

  Device& device_;
  const ProcessMesh& mesh_;
  int turns_;
  std::vector<std::string> names_;
  std::vector<std::uint64_t> bases_;  // by tensor
  std::vector<int> turn_of_;          // by tensor
  std::vector<Region> regions_;
  Buffer digests_, host_;    // (tensors) u64
  Buffer sums_, sums_host_;  // (2) u64, by step % 2
};

// For a whole tensor on the host: the sum of the ranks' parts.
[[nodiscard]] std::uint64_t tensor_digest(std::string_view name, std::span<const float> values);

}  // namespace trireme
