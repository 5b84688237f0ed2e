// SPDX-License-Identifier: Apache-2.0
// A rank's part of the sample chain with values that are functions of kind and element: save under
// one layout, check under another.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "runtime/checkpoint/agree.h"
#include "runtime/checkpoint/restore/restore.h"
#include "runtime/checkpoint/save/saver.h"
#include "tests/support/mpi_test.h"
#include "tests/support/sample_params.h"
#include "tests/support/temporary_directory.h"

namespace trireme::test {

struct PartLayout {
  std::string name;
  MeshShape mesh{};
  int zero = 0;
  int blocks = 1;
};

[[nodiscard]] inline std::vector<PlacedParam> placed_sample(int stages) {
  const auto units = sample_units();
  const int count = static_cast<int>(units.size());
  std::vector<PlacedParam> placed;
  for (int stage = 0; stage < stages; ++stage) {
    for (int unit = stage * count / stages; unit < (stage + 1) * count / stages; ++unit) {
      for (const ParamSpec& spec : units[static_cast<std::size_t>(unit)]) {
        if (!spec.is_copy()) placed.push_back({spec, stage});
      }
    }
  }
  return placed;
}

// With a directory shared by all ranks.
class SharedDirectoryTest : public MpiTest {
 protected:
  SharedDirectoryTest() {
    if (rank() == 0) own_ = std::make_unique<TemporaryDirectory>();
    directory_ = share_text(world(), HostStream(), own_ ? own_->path() : "");
  }

  // Rank 0 removes the directory after the last read.
  void TearDown() override { world().barrier(); }

  // Calls `action(group)` on the first `ranks` ranks.
  template <typename Action>
  void on_ranks(int ranks, Action&& action) {
    const auto group = world().split(rank() < ranks ? 0 : 1, rank(), "part");
    if (rank() < ranks) action(*group);
    world().barrier();
  }

  std::string directory_;

 private:
  std::unique_ptr<TemporaryDirectory> own_;
};

class Part {
 public:
  Part(Device& device, Communicator& group, const PartLayout& layout)
      : mesh(group, layout.mesh),
        placed(placed_sample(layout.mesh.pipeline)),
        params(sample_part(
            device, layout.mesh, mesh.here(), layout.blocks,
            {.compute = DType::bf16, .training = true, .zero = {.stage = layout.zero}})),
        stream(device.make_stream(StreamKind::compute)),
        memory_{arena(device, params.layout().owned_elements()),
                arena(device, params.layout().owned_elements()),
                arena(device, params.layout().owned_elements()),
                Buffer(device, sizeof(float) * 3, MemoryKind::device)},
        values{.params = params,
               .first = view(memory_[0]),
               .second = view(memory_[1]),
               .average = view(memory_[2]),
               .scalars = {{"loss_scale", memory_[3].view(DType::f32, Shape{3})}}} {}

  void drop_average() { values.average = {}; }

  void fill(std::uint64_t salt) {
    for (const ValueKind kind : values.kinds()) {
      for (const Bucket& bucket : params.layout().buckets()) {
        const Held held = held_of(values, kind, bucket);
        if (held.values.empty()) continue;
        const std::vector<float> wanted = expected(kind, bucket, held, salt);
        upload(*stream, held.values.data, wanted.data(), held.values.bytes());
      }
    }
    const std::array<float, 3> scale{static_cast<float>(salt), 2, 3};
    upload(*stream, memory_[3].data(), scale.data(), sizeof scale);
  }

  // Number of elements that differ from fill(salt), over all kinds, with padding.
  [[nodiscard]] std::int64_t wrong(std::uint64_t salt) {
    std::int64_t count = 0;
    for (const ValueKind kind : values.kinds()) {
      for (const Bucket& bucket : params.layout().buckets()) {
        const Held held = held_of(values, kind, bucket);
        if (held.values.empty()) continue;
        const std::vector<float> wanted = expected(kind, bucket, held, salt);
        std::vector<float> found(wanted.size());
        download(*stream, found.data(), held.values.data, held.values.bytes());
        for (std::size_t i = 0; i < found.size(); ++i)
          count += std::memcmp(&found[i], &wanted[i], sizeof(float)) == 0 ? 0 : 1;
      }
    }
    std::array<float, 3> scale{};
    download(*stream, scale.data(), memory_[3].data(), sizeof scale);
    return count + (scale == std::array<float, 3>{static_cast<float>(salt), 2, 3} ? 0 : 1);
  }

 private:
  static Buffer arena(Device& device, std::int64_t elements) {
    return {device, static_cast<std::size_t>(elements) * sizeof(float), MemoryKind::device};
  }
  static Tensor view(const Buffer& buffer) {
    return buffer.view(DType::f32,
                       Shape{static_cast<std::int64_t>(buffer.bytes() / sizeof(float))});
  }

  std::vector<float> expected(ValueKind kind, const Bucket& bucket, const Held& held,
                              std::uint64_t salt) const {
    std::vector<float> all(static_cast<std::size_t>(held.count), 0.0F);
    const ParamLayout& layout = params.layout();
    for (const ParamId id : layout.order()) {
      if (&layout.buckets()[static_cast<std::size_t>(layout.bucket_of(id))] != &bucket) continue;
      const ParamSpec& spec = layout.spec(id);
      for_each_run(spec, layout.split(spec), [&](auto stored, auto logical, auto count) {
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t place = layout.offset(id) + stored + i - held.first;
          if (place >= 0 && place < held.count)
            all[static_cast<std::size_t>(place)] = sample_value(
                spec.identity(), logical + i, 10 * salt + static_cast<std::uint64_t>(kind));
        }
      });
    }
    return all;
  }

 public:
  ProcessMesh mesh;
  std::vector<PlacedParam> placed;
  ParamStore params;
  std::unique_ptr<Stream> stream;

 private:
  std::array<Buffer, 4> memory_;

 public:
  CheckpointValues values;
};

}  // namespace trireme::test
