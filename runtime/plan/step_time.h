// SPDX-License-Identifier: Apache-2.0
// Predicts the seconds of a training step from counts and declarations: layers by a roofline
// (Williams et al., 2009), messages by alpha and beta (comm_cost.h), the pipeline by simulating its
// schedule, overlap as in the engine. Pure functions; no device, no communicator.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "runtime/comm/process_mesh.h"
#include "runtime/nn/model.h"
#include "runtime/parallel/schedule_timeline.h"
#include "runtime/parallel/stage_plan.h"
#include "runtime/plan/cta_cost.h"
#include "runtime/plan/hardware.h"
#include "runtime/plan/layer_work.h"

namespace trireme::plan {

// Bytes that the engine sends, and what it overlaps. The defaults are Trireme's; others describe
// published systems.
struct EngineTraits {
  double gradient_bytes = 4;  // per element reduced by data-parallel ranks
  // Owners receive and add all ranks' gradients (parallel/rounded_sum.h), instead of rings. For
  // GPUs only: on a CPU they always do, as in the measured links.
  bool owners_sum_gradients = false;
  double gathered_bytes = 4;     // per parameter gathered by ZeRO
  bool rounded_gathers = true;   // but matrices in the compute dtype
  double partial_sum_bytes = 4;  // per element of tensor-parallel sums, unless rounded
  // The sum of an input gradient overlaps the layer's weight gradient.
  bool hides_input_gradient_sums = true;
  bool hides_gathers = true;  // parameter gathers overlap the forward
  // Pipeline stages compute while they send and receive.
  bool hides_transfers = true;
  // Fraction of the other tensor-parallel messages that overlaps their products.
  double hidden_tensor_messages = 0;
  // Selective recomputation gathers the inputs of products again.
  bool repeats_gathers = false;
};

struct StepInput {
  // The whole chain, per micro-batch, or per block of one (build.context).
  std::vector<LayerSummary> layers;
  // Each layer's work on one tensor rank, for a micro-batch.
  std::vector<LayerWork> work{};
  // By layer: equal where parameters are declared alike, whatever their names, in all estimates of
  // one memo. Empty: not known.
  std::vector<int> kinds{};
  BuildOptions build{};  // micro_batch, tensor, sequence, recompute, split_backward
  MeshShape mesh{};
  ScheduleShape schedule{};  // micro_batches: of one pipeline, for the slowest data rank
  // Over all pipelines, those of context-parallel ranks once; 0: equally many in each.
  std::int64_t global_micro_batches = 0;
  StagePlan stages{};
  Precision precision = Precision::fp32;
  int zero = 0;
  std::int64_t bucket_elements = 1 << 20;
  bool separate_ties = false;
  bool overlapped_reducer = true;
  // Memory traffic per owned parameter, without the norm and the compute copy: AdamW in fp32.
  double optimizer_bytes = 28;
  std::int64_t items_per_sample = 1;  // tokens of a sequence; 1 for images
  std::int64_t rows_per_sample = 1;   // rows of a product per sample: tokens, or 1
  double sample_bytes = 0;            // read from storage by a rank per sample
  EngineTraits engine{};
  MessageCtas ctas{};
};

// Bytes sent in a step by the rank that sends most, by group.
struct StepVolumes {
  double tensor = 0;
  double experts = 0;   // rows of tokens
  double context = 0;   // of sequences that are cut in time
  double data = 0;      // gradients and gathered parameters
  double data_out = 0;  // of these, to other domains (hosts)
  double pipeline = 0;
};

// Seconds. All parts but `stages` add up to `total`; computation is the mean over stages.
struct StepEstimate {
  double forward = 0;
  double backward = 0;
  double recompute = 0;
  double tensor_exposed = 0;    // tensor-parallel messages that are not overlapped
  double expert_exposed = 0;    // rows on their way to experts and back
  double context_exposed = 0;   // keys and values, or rows and heads, of sequences that ranks share
  double pipeline_exposed = 0;  // transfers that are not overlapped
  double bubble = 0;            // waits for other stages
  double data_exposed = 0;      // gradient reductions after the last backward
  double gather_exposed = 0;    // parameters that the forward waits for
  double optimizer = 0;         // including clipping and its norm
  double data_wait = 0;         // samples that storage cannot deliver in time
  double sample_bandwidth = 0;  // bytes per second of samples that a rank reads
  double straggler = 0;         // the slowest of all ranks against the mean
  double total = 0;

  StepVolumes volumes{};
  double model_flops = 0;  // of all ranks: three times the declared forward
  double samples_per_second = 0;
  double items_per_second = 0;  // tokens or images
  double mfu = 0;               // model_flops / total / ranks / peak of the precision

  struct Stage {
    double forward = 0, backward = 0;  // per micro-batch, all chunks, messages included
    double parameters = 0;             // on a rank of the stage
    double data_tail = 0;              // from its last backward to the end of its reductions
  };
  std::vector<Stage> stages{};
};

// FLOPs of a step on all ranks: three times the declared forward.
[[nodiscard]] double model_flops(const StepInput& input);

// A stage's parameters in the arenas of a rank.
struct StageLayout {
  std::vector<Bucket> buckets;
  double elements = 0, owned_elements = 0;  // trained
};

// What many estimates for one hardware share, as those of a search do.
struct StepMemo {
  Schedule schedule{};
  Costs costs{};
  PipelineResources resources{};
  Timeline timeline{};
  // By what a layout depends on.
  std::map<std::vector<std::int64_t>, StageLayout> layouts{};
};

// The schedule of the step.
[[nodiscard]] const Schedule& schedule_of(const StepInput& input, StepMemo& memo);
// Trained parameters on a rank of the stage.
[[nodiscard]] double elements_of_stage(const StepInput& input, int stage, StepMemo& memo);

// Raises ExitCode::config if the hardware has no rate for the precision.
[[nodiscard]] StepEstimate estimate_step(const StepInput& input, const Hardware& hardware,
                                         StepMemo* memo = nullptr);

}  // namespace trireme::plan
