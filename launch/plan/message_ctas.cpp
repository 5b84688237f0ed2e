// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/message_ctas.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "launch/engine/options.h"
#include "launch/engine/session.h"
#include "runtime/plan/cta_cost.h"

namespace trireme {

std::vector<RolePrice> role_prices(const Config& config, const plan::Hardware& hardware) {
  std::vector<RolePrice> rows;
  if (device_type(config) != DeviceType::cuda) return rows;
  const ParallelConfig& parallel = config.parallel;
  const CtaLimits limits = cta_limits(config);
  const MessageProcessors left = message_processors(config, pipeline_shape(config, true));
  const int processors = hardware.device.multiprocessors;
  const int channels = plan::channels_of(hardware.links);
  const auto add = [&](CommRole role, std::int64_t ranks, int calls, int leaves) {
    if (ranks <= 1) return;
    RolePrice row{.role = role,
                  .most = limits.most_of(role),
                  .bounded = limits.most_of(role) < nccl_most_ctas,
                  .left = std::max(leaves, reserved_processors(config)),
                  .slowdown = std::numeric_limits<double>::quiet_NaN()};
    if (!row.bounded)
      row.most = role == CommRole::link && channels > 0
                     ? plan::ctas_of_message(static_cast<int>(ranks), channels)
                     : channels;
    if (processors > 0 && row.most > 0)
      row.slowdown = plan::matmul_slowdown(processors, calls * row.most, row.left);
    rows.push_back(row);
  };
  add(CommRole::link, parallel.pipeline, left.receives, left.receives * left.link);
  add(CommRole::data, parallel.data_ranks(), 1, left.data);
  if (parallel.zero > 0) add(CommRole::gather, parallel.data_ranks(), 1, left.gather);
  add(CommRole::tensor, parallel.inner_ranks(), 1, left.tensor);
  return rows;
}

std::string describe_roles(const Config& config, const plan::Hardware& hardware) {
  std::string text;
  for (const RolePrice& row : role_prices(config, hardware)) {
    text += fmt::format("NCCL for {}: ", name_of(row.role));
    text += row.most == 0
                ? "its own choice of thread blocks"
                : fmt::format("{} {} thread blocks a call",
                              row.bounded ? "at most" : "its own choice, about", row.most);
    text += row.left > 0 ? fmt::format(", matmuls leave {} multiprocessors", row.left)
                         : std::string(", matmuls leave none");
    if (row.slowdown == row.slowdown) text += fmt::format(": x{:.2f} beside them", row.slowdown);
    text += '\n';
  }
  return text;
}

}  // namespace trireme
