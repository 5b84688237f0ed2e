// SPDX-License-Identifier: Apache-2.0
// What a head predicts in an evaluation, collected from all ranks in the order of the whole pass,
// so that scores have the same bits in every layout.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/comm/host_stream.h"
#include "runtime/comm/process_mesh.h"
#include "runtime/nn/model.h"
#include "runtime/train/meters/scores.h"

namespace trireme {

// Whether evaluations of such a model have scores: of classes of samples and tokens, of labels, and
// of values that are no maps.
[[nodiscard]] bool has_scores(const TargetSpec& targets);

class Predictions {
 public:
  // `batches`: of each rank. The references must outlive this.
  Predictions(Device& device, const ProcessMesh& mesh, const Model& model,
              const TargetSpec& targets, std::int64_t batches);

  // After a forward pass outside training, where the head is. Blocks the host.
  void add(const Context& context, std::int64_t batch);
  // After the last. Collective; blocks the host.
  void gather();
  // After gather(), on every rank: over the micro-batches [first, end) of the whole pass.
  [[nodiscard]] Scores scores(std::int64_t first, std::int64_t end) const;

 private:
  [[nodiscard]] std::vector<float> to_host(Stream& stream, const Tensor& values);

  Device& device_;
  const ProcessMesh& mesh_;
  const Model& model_;
  TargetSpec targets_;
  std::int64_t batches_;
  Buffer host_{};
  HostStream stream_;
  // Of a class two numbers and the margin; of values all targets, then all predictions.
  std::vector<float> rows_, all_;
};

}  // namespace trireme
