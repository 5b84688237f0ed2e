// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/stage_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr double impossible = std::numeric_limits<double>::infinity();
constexpr double tolerance = 1e-9;

// Dynamic programming from the last layer back: best[p][i] is the least value of layers i... in p
// runs, combining a run's value with that of the following runs.
class Cutter {
 public:
  explicit Cutter(std::span<const double> cost) : layers_(cost.size()), before_(layers_ + 1, 0.0) {
    for (std::size_t i = 0; i < layers_; ++i) {
      TRIREME_EXPECTS(cost[i] >= 0 && std::isfinite(cost[i]), "layer {} costs {}", i, cost[i]);
      before_[i + 1] = before_[i] + cost[i];
    }
  }

  [[nodiscard]] double run(std::size_t first, std::size_t end) const {
    return before_[end] - before_[first];
  }

  template <typename Join>
  [[nodiscard]] std::vector<std::vector<double>> best(std::size_t parts, const Join& join) const {
    std::vector best(parts + 1, std::vector(layers_ + 1, impossible));
    best[0][layers_] = 0;
    for (std::size_t p = 1; p <= parts; ++p) {
      for (std::size_t first = 0; first < layers_; ++first) {
        for (std::size_t end = first + 1; end <= layers_; ++end)
          best[p][first] = std::min(best[p][first], join(run(first, end), best[p - 1][end]));
      }
    }
    return best;
  }

 private:
  std::size_t layers_;
  std::vector<double> before_;  // cost of the layers before each
};

}  // namespace

std::vector<int> balance(std::span<const double> cost_per_layer, int parts) {
  const std::size_t layers = cost_per_layer.size();
  TRIREME_EXPECTS(parts >= 1 && static_cast<std::size_t>(parts) <= layers,
                  "{} layers cannot fill {} stages", layers, parts);
  const auto runs = static_cast<std::size_t>(parts);
  const Cutter cutter(cost_per_layer);
  const double dearest =
      cutter.best(runs, [](double run, double rest) { return std::max(run, rest); })[runs][0];
  const double limit = dearest * (1 + tolerance);
  const double slack = dearest * dearest * tolerance;
  const auto squares = [limit](double run, double rest) {
    return run <= limit ? run * run + rest : impossible;
  };
  const auto best = cutter.best(runs, squares);

  std::vector<int> lengths;
  std::size_t first = 0;
  for (std::size_t left = runs; left > 0; --left) {
    std::size_t end = layers;
    while (squares(cutter.run(first, end), best[left - 1][end]) > best[left][first] + slack)
      --end;
    lengths.push_back(static_cast<int>(end - first));
    first = end;
  }
  return lengths;
}

}  // namespace trireme
