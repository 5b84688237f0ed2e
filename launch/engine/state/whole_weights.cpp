// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/state/whole_weights.h"

#include <algorithm>
#include <iterator>

#include "runtime/telemetry/environment.h"

namespace trireme {
namespace {

// Gathers parameters, or values indexed like them, on rank 0. Collective.
std::vector<WholeTensor> gather(Session& session, const OwnedValues& owned, bool with_statistics) {
  return gather_whole(*session.device, session.mesh, *session.streams.comm, session.model->params(),
                      session.placed_params(), owned, with_statistics);
}

}  // namespace

std::vector<WholeTensor> gather_weights(Session& session) {
  const ParamStore& params = session.model->params();
  return gather(
      session, [&](const Bucket& bucket) { return params.masters().owned(bucket); }, true);
}

std::vector<WholeTensor> gather_average(Session& session, const AverageWeights& average) {
  return gather(
      session, [&](const Bucket& bucket) { return average.owned(bucket); }, true);
}

std::string optimizer_digest(Session& session, const Optimizer& optimizer) {
  const ParamLayout& layout = session.model->params().layout();
  std::vector<WholeTensor> all;
  for (const Tensor& moments : {optimizer.first_moments(), optimizer.second_moments()}) {
    if (moments.empty()) continue;
    auto part = gather(
        session,
        [&](const Bucket& bucket) {
          return moments.range(bucket.owned, layout.slice_count(bucket));
        },
        false);
    std::ranges::move(part, std::back_inserter(all));
  }
  if (const Tensor factored = optimizer.factored_moments(); !factored.empty()) {
    const Buffer host(*session.device, factored.bytes(), MemoryKind::host);
    session.device->copy(*session.streams.comm, host.data(), factored.data, factored.bytes());
    session.streams.comm->synchronize();
    const auto* const values = reinterpret_cast<const float*>(host.data());
    all.push_back({"factored_moments", factored.shape, {values, values + factored.count()}});
  }
  return digest_of(all);
}

std::map<std::string, std::string> weights_metadata(std::optional<std::int64_t> step) {
  std::map<std::string, std::string> metadata{{"format", "trireme"}, {"version", version_text()}};
  if (step) metadata.emplace("step", fmt::format("{}", *step));
  return metadata;
}

}  // namespace trireme
