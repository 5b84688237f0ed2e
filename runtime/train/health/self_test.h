// SPDX-License-Identifier: Apache-2.0
// Checks between two steps that every rank computes right, as fast as its peers, and that its
// messages arrive: a matmul with a known exact result and a timed exchange with neighbours.
#pragma once

#include <vector>

#include "runtime/comm/process_mesh.h"
#include "runtime/train/health/health_report.h"
#include "runtime/train/step/streams.h"

namespace trireme {

class SelfTest {
 public:
  // Allocates all it needs. The references must outlive it. `compute`: dtype of the operands.
  SelfTest(Device& device, const ProcessMesh& mesh, Streams& streams, DType compute);

  // The results of all ranks, by rank, on every rank. Nothing else may be in flight. Collective;
  // blocks the host.
  [[nodiscard]] std::vector<HealthSample> run();

 private:
  void choose_size();
  void fill_operands();
  void multiply(HealthSample& sample);
  void exchange(HealthSample& sample);

  Device& device_;
  const ProcessMesh& mesh_;
  Streams& streams_;
  DType compute_;
  std::int64_t size_;  // of the square operands; 0: not chosen yet
  Buffer left_, right_, product_, product_host_;
  Buffer sent_, received_, message_host_;
  std::unique_ptr<Event> start_, end_;
};

enum class TestedPart : std::uint8_t { product, message };
// Faults that a test injects into results or messages. Does nothing except in test programs, which
// link their own definition (tests/launch/fixture/test_faults.cpp).
void planted_wrong_device(TestedPart part, Stream& stream, const Tensor& values);

// Rows of `sums` (n, n) that differ from those of `times` * left(n, n)^T right(n, n), with entries
// of both from test_entry(); sums are integers below 2^24. Freivalds' check (1977): multiplies both
// sides by a vector, in O(n^2); always finds a row with one wrong value.
[[nodiscard]] std::int64_t wrong_rows(std::span<const float> sums, std::int64_t n,
                                      std::int64_t times);
// -1, 0 or 1, a function of operand (0 left, 1 right) and index.
[[nodiscard]] int test_entry(int operand, std::int64_t index);

}  // namespace trireme
