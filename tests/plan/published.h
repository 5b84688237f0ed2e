// SPDX-License-Identifier: Apache-2.0
// Rows of published measurements and their comparison with the model. Differences between systems
// are in EngineTraits, never between rows of one system, and are taken from the source.
#pragma once

#include <string>
#include <vector>

#include "tests/plan/transformer_work.h"

namespace trireme::plan::test {

enum class Unit : std::uint8_t {
  tera_flops,         // per GPU and second, as published_flops counts them
  tokens_per_second,  // per GPU
  samples_per_second  // per GPU
};

// A row's part in fitting the model.
enum class Use : std::uint8_t {
  fit,      // the efficiencies were chosen on it
  seen,     // in view while the model was written or corrected
  held_out  // added afterwards, without any change
};

struct System {
  const char* name;
  const char* hardware;  // configs/hardware/NAME.yaml
  SystemTraits engine{};
  bool overlapped_reducer = true;
};

struct Row {
  std::string label;
  Transformer model;
  MeshShape mesh;
  int micro_batch = 1, micro_batches = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;
  int zero = 1;
  Recompute recompute = Recompute::none;
  Precision precision = Precision::bf16;
  Unit unit = Unit::tera_flops;
  double published = 0;
  Use use = Use::held_out;
};

// Prints a line of a Markdown table per row; fails if an error exceeds its use's limit.
void compare(const System& system, const std::vector<Row>& rows);

// Number of passes of element-wise ops through memory, by the engine's fusion: everything between
// two products; bias with GELU and with dropout and residual (Megatron-LM's defaults); nothing.
inline constexpr double fused_traffic = 1, partly_fused_traffic = 2, eager_traffic = 3;

// Gradients are reduced in fp32, everything else travels in bf16.
constexpr SystemTraits with_traffic(double elementwise_traffic) {
  SystemTraits traits;
  traits.gathered_bytes = traits.partial_sum_bytes = 2;
  traits.rounded_gathers = false;
  traits.elementwise_traffic = elementwise_traffic;
  return traits;
}

// Messages of 8 tensor-parallel ranks, overlapped with their products in 8 pieces: a product starts
// after the first piece, and a sum ends after the last.
inline constexpr double sent_in_pieces = 7.0 / 8;

}  // namespace trireme::plan::test
