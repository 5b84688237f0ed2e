// SPDX-License-Identifier: Apache-2.0
// Predicted seconds of one training step, from declarations alone: layers by a roofline (Williams
// et al., 2009), messages by alpha and beta (comm_cost.h), the pipeline by replaying its schedule,
// what overlaps as the engine overlaps it. Pure functions; no device, no communicator.
#pragma once

#include <span>
#include <vector>

#include "runtime/comm/process_mesh.h"
#include "runtime/nn/model.h"
#include "runtime/parallel/stage_plan.h"
#include "runtime/plan/hardware.h"
#include "runtime/plan/layer_work.h"

namespace trireme::plan {

// Bytes of what the engine sends, and what it hides. The defaults are Trireme's; others describe
// published systems.
struct EngineTraits {
  double gradient_bytes = 4;  // per element that data-parallel ranks reduce
  // Gradients go to their owners as they are, who add them up (parallel/rounded_sum.h), not from
  // rank to rank in rings. Of GPUs: on a CPU they do so in every dtype, as links were measured.
  bool owners_sum_gradients = false;
  double gathered_bytes = 4;     // per parameter that ZeRO gathers
  bool rounded_gathers = true;   // but of matrices in the compute dtype
  double partial_sum_bytes = 4;  // per element of tensor-parallel sums, where they are not rounded
  // fp8: operands that several products or micro-batches share are quantised once. Else every
  // product pays for its operands and its result.
  bool quantises_once = true;
  // The sum of an input gradient travels while the weight gradient of the layer is computed.
  bool hides_input_gradient_sums = true;
  bool hides_gathers = true;  // parameters are gathered beside the forward
  // Pipeline stages compute while they send and receive.
  bool hides_transfers = true;
  // Share of the other tensor-parallel messages that runs beside the products that need them.
  double hidden_tensor_messages = 0;
  // Memory traffic of element-wise ops, relative to reading and writing the operands and results of
  // products once: 1 where kernels are fused, more where each op is one.
  double elementwise_traffic = 1;
  // Share of a block's products that selective recomputation repeats.
  double selective_matmuls = 0;
};

struct StepInput {
  std::vector<LayerSummary> layers;  // the whole chain, of one micro-batch
  // What each of them asks for on one of its tensor ranks. Empty: as the declarations have it.
  std::vector<LayerWork> work{};
  BuildOptions build{};  // micro_batch, tensor, sequence, recompute, split_backward
  MeshShape mesh{};
  ScheduleShape schedule{};  // micro_batches: of one pipeline, that of the slowest data rank
  // Of all pipelines together; 0: as many in each.
  std::int64_t global_micro_batches = 0;
  StagePlan stages{};
  Precision precision = Precision::fp32;
  int zero = 0;
  std::int64_t bucket_elements = 1 << 20;
  bool separate_ties = false;
  bool overlapped_reducer = true;
  // Of memory traffic per owned parameter, without the norm and the compute copy: AdamW in fp32.
  double optimizer_bytes = 28;
  std::int64_t items_per_sample = 1;  // tokens of a sequence; 1 for images
  std::int64_t rows_per_sample = 1;   // rows that a product has for each sample: tokens, or 1
  std::int64_t head_size = 128;       // of attention, where `work` is empty
  double sample_bytes = 0;            // read from storage for each sample
  EngineTraits engine{};
};

// Bytes that one rank sends in a step (the rank that sends most), by group.
struct StepVolumes {
  double tensor = 0;
  double data = 0;  // gradients and gathered parameters
  double pipeline = 0;
};

// Seconds. All parts but `stages` add up to `total`; those of computation are the mean over stages.
struct StepEstimate {
  double forward = 0;
  double backward = 0;
  double recompute = 0;
  double tensor_exposed = 0;    // tensor-parallel messages that nothing hides
  double pipeline_exposed = 0;  // transfers that take a stage's own time
  double bubble = 0;            // a stage waits for others
  double data_exposed = 0;      // reductions of gradients after the last backward
  double gather_exposed = 0;    // parameters that the forward waits for
  double optimizer = 0;         // with clipping and its norm
  double data_wait = 0;         // samples that storage cannot deliver in time
  double straggler = 0;         // the slowest of all ranks against the mean
  double total = 0;

  StepVolumes volumes{};
  double model_flops = 0;  // of all ranks: three times the declared forward
  double samples_per_second = 0;
  double items_per_second = 0;  // tokens or images
  double mfu = 0;               // model_flops / total / ranks / peak of the precision

  struct Stage {
    double forward = 0, backward = 0;  // of one micro-batch, all chunks, messages included
    double parameters = 0;             // elements that a rank of the stage holds
    double data_tail = 0;              // seconds its reductions end after its last backward
  };
  std::vector<Stage> stages{};
};

// FLOPs of one step on all ranks: three times the declared forward.
[[nodiscard]] double model_flops(const StepInput& input);

// Raises ExitCode::config where the hardware has no rate for the precision.
[[nodiscard]] StepEstimate estimate_step(const StepInput& input, const Hardware& hardware);

}  // namespace trireme::plan
