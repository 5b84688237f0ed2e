// SPDX-License-Identifier: Apache-2.0
// For tests linked with mpi_main.cpp.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/process_mesh.h"

namespace trireme::test {

// The environment that the test's main owns.
[[nodiscard]] const MpiEnvironment& mpi();

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

// A CPU device with an inline compute stream and a comm stream with a worker, and the world group,
// all made anew for each test.
class MpiTest : public testing::Test {
 protected:
  MpiTest()
      : device_(Device::create(DeviceType::cpu)),
        compute_(device_->make_stream(StreamKind::compute)),
        comm_stream_(device_->make_stream(StreamKind::comm)),
        world_(mpi().world()) {}

  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] Stream& compute() const { return *compute_; }
  [[nodiscard]] Stream& comm_stream() const { return *comm_stream_; }
  [[nodiscard]] Communicator& world() const { return *world_; }
  [[nodiscard]] int rank() const { return world_->rank(); }
  [[nodiscard]] int size() const { return world_->size(); }

  template <typename T>
  [[nodiscard]] static Tensor tensor_of(std::vector<T>& values) {
    return {reinterpret_cast<std::byte*>(values.data()), dtype_of<T>,
            Shape{static_cast<std::int64_t>(values.size())}};
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> compute_;
  std::unique_ptr<Stream> comm_stream_;
  std::unique_ptr<Communicator> world_;
};

}  // namespace trireme::test
