// SPDX-License-Identifier: Apache-2.0
// Does every rank still compute right, and as fast as its peers, and does what it sends arrive? A
// matmul whose exact result is known and a timed exchange with the neighbours, between two steps.
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

  // What each rank found, by rank, on every rank. Nothing else may be in flight. Collective; blocks
  // the host.
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
// What a test has go wrong in a self test, in what was computed or has arrived: nothing but in a
// test's program, which brings its own function (tests/launch/fixture/test_faults.cpp), for the
// linker to take instead.
void planted_wrong_device(TestedPart part, Stream& stream, const Tensor& values);

// Rows of `sums` (n, n) that are not those of `times` * left(n, n)^T right(n, n), entries of both
// by test_entry(); sums are whole numbers below 2^24. Freivalds' check (1977): both sides times one
// vector, in O(n^2); a row with one wrong value is always found.
[[nodiscard]] std::int64_t wrong_rows(std::span<const float> sums, std::int64_t n,
                                      std::int64_t times);
// -1, 0 or 1, a function of operand (0 left, 1 right) and index.
[[nodiscard]] int test_entry(int operand, std::int64_t index);

}  // namespace trireme
