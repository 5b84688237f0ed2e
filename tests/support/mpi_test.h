// SPDX-License-Identifier: Apache-2.0
// For tests linked with mpi_main.cpp.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/nccl.h"
#include "runtime/comm/process_mesh.h"
#include "tests/support/mirrors.h"
#include "tests/support/test_device.h"

namespace trireme::test {

// The environment that the test's main owns.
[[nodiscard]] const MpiEnvironment& mpi();
[[nodiscard]] inline bool over_tcp() {
  return mpi().launcher() == "RANK and WORLD_SIZE";
}

// Every way to lay `ranks` out over pipeline, data and tensor groups.
[[nodiscard]] inline std::vector<MeshShape> meshes_of(int ranks) {
  std::vector<MeshShape> shapes;
  for (int pipeline = 1; pipeline <= ranks; ++pipeline) {
    for (int data = 1; data <= ranks / pipeline; ++data) {
      const MeshShape shape{pipeline, data, ranks / (pipeline * data)};
      if (shape.size() == ranks) shapes.push_back(shape);
    }
  }
  return shapes;
}

// For a ZeRO stage: with every size of groups that share slices.
[[nodiscard]] inline std::vector<MeshShape> zero_meshes_of(int ranks, int stage) {
  std::vector<MeshShape> shapes;
  for (MeshShape shape : meshes_of(ranks)) {
    for (shape.shard = 1; shape.shard <= (stage > 0 ? shape.data : 1); ++shape.shard)
      for (shape.expert = 1; shape.expert <= shape.data; ++shape.expert)
        if (shape.data % shape.shard == 0 && shape.data % shape.expert == 0 &&
            (shape.shard % shape.expert == 0 || shape.expert % shape.shard == 0))
          shapes.push_back(shape);
  }
  return shapes;
}

[[nodiscard]] inline std::unique_ptr<Device> make_device_under_test() {
  return Device::create(
      device_under_test(),
      {.local_rank = mpi().local_rank(), .local_size = mpi().local_size(), .share = true});
}

[[nodiscard]] inline std::unique_ptr<Communicator> make_world(Device& device,
                                                              NcclOptions options = {}) {
  auto world = mpi().world();
  if (device.type() == DeviceType::cpu) return world;
  return make_nccl_world(std::move(world), device, std::move(options));
}

// Sums on the host in the order of reduce.h.
void sum_blocks_on_host(Stream& stream, const Tensor& out, const Tensor& blocks,
                        std::int64_t doubled);

// The device under test with a compute and a comm stream, and the world group, created for each
// test. On the CPU the compute stream runs inline. On a GPU, host tensors have mirrors, which
// finish() copies back.
class MpiTest : public testing::Test {
 protected:
  MpiTest()
      : device_(make_device_under_test()),
        compute_(device_->make_stream(StreamKind::compute)),
        comm_stream_(device_->make_stream(StreamKind::comm)),
        world_(make_world(*device_, {.sum_blocks = sum_blocks_on_host})),
        mirrors_(*compute_) {}

  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] Stream& compute() const { return *compute_; }
  [[nodiscard]] Stream& comm_stream() const { return *comm_stream_; }
  [[nodiscard]] Communicator& world() const { return *world_; }
  [[nodiscard]] int rank() const { return world_->rank(); }
  [[nodiscard]] int size() const { return world_->size(); }
  [[nodiscard]] bool on_gpu() const { return device_->type() == DeviceType::cuda; }
  [[nodiscard]] Mirrors& mirrors() { return mirrors_; }

  template <typename T>
  [[nodiscard]] Tensor tensor_of(std::vector<T>& values) {
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values));
    return {mirrors_.of(bytes), dtype_of<T>, Shape{static_cast<std::int64_t>(values.size())}};
  }
  // Waits for both streams.
  void finish() {
    compute_->synchronize();
    comm_stream_->synchronize();
    mirrors_.bring_back();
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> compute_;
  std::unique_ptr<Stream> comm_stream_;
  std::unique_ptr<Communicator> world_;
  Mirrors mirrors_;
};

}  // namespace trireme::test
