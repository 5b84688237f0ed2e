// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluation.h"

#include "runtime/train/loss_totals.h"

namespace trireme {

EvaluationResult evaluate(Device& device, Model& model, Communicator& group, Streams& streams,
                          BatchSource& source, const EvaluationPlan& plan) {
  LossTotals totals(device);
  totals.reset(*streams.compute);
  for (std::int64_t i = 0; i < plan.local_batches; ++i) {
    const Batch& batch = source.next(*streams.copy, *streams.compute);
    const Context context = model.context(*streams.compute, batch, /*training=*/false);
    model.forward(context);
    totals.add(context);
  }
  totals.publish(group, *streams.compute, *streams.comm);
  const LossTotals::Values sums = totals.read();
  const auto targets = static_cast<double>(plan.targets);
  return {sums.loss / targets, sums.hits / targets};
}

}  // namespace trireme
