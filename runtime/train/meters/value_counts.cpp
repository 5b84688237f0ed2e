// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/value_counts.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme {
namespace {

constexpr std::int64_t piece_values = 1 << 16;
constexpr int least_power = -32;

Tensor tensor_of(std::span<double> values) {
  return {reinterpret_cast<std::byte*>(values.data()), DType::f64, Shape{std::ssize(values)}};
}

// The edge of the bin that is nearer to 0.
double edge_of(int half_powers) {
  return std::exp2(least_power + 0.5 * half_powers);
}

}  // namespace

int SizeBins::bin_of(float value) {
  if (!std::isfinite(value)) return -1;
  int power = 0;
  const float fraction = std::frexp(std::abs(value), &power);  // 0.5 to 1
  // The value is fraction * 2 * 2^(power - 1).
  const int half = 2 * (power - 1 - least_power) + (fraction >= 0.70710678F ? 1 : 0);
  if (value == 0 || half < 0) return of_sign;
  const int bin = std::min(half, of_sign - 1) + 1;
  return value < 0 ? of_sign - bin : of_sign + bin;
}

void SizeBins::add(std::span<const float> values, std::span<double> bins) {
  for (const float value : values)
    if (const int bin = bin_of(value); bin >= 0) bins[static_cast<std::size_t>(bin)] += 1;
}

std::vector<double> SizeBins::rows_of(std::span<const double> bins) {
  const auto filled = [](double count_of_bin) { return count_of_bin > 0; };
  const auto first = std::ranges::find_if(bins, filled) - bins.begin();
  const auto end = count - (std::find_if(bins.rbegin(), bins.rend(), filled) - bins.rbegin());
  std::vector<double> rows;
  for (auto bin = first; bin < end; ++bin) {
    const int from_middle = static_cast<int>(bin) - of_sign;
    const int size = std::abs(from_middle);
    double low = size == 0 ? -edge_of(0) : edge_of(size - 1), high = edge_of(size);
    if (from_middle < 0) std::tie(low, high) = std::pair(-high, -low);
    rows.insert(rows.end(), {low, high, bins[static_cast<std::size_t>(bin)]});
  }
  return rows;
}

ValueCounts::ValueCounts(Device& device, const ProcessMesh& mesh, const ParamStore& params,
                         std::vector<std::string> weights)
    : device_(device), world_(mesh.world()), weights_(std::move(weights)) {
  const ParamLayout& layout = params.layout();
  for (const ParamId id : layout.order()) {
    const ParamSpec& spec = layout.spec(id);
    const auto known = std::ranges::find(weights_, spec.name);
    if (known == weights_.end() || spec.is_copy() || spec.kind != ParamKind::weight) continue;
    const MeshShape& shape = mesh.shape();
    if (mesh.here().data >= std::max(shape.shard, spec.expert ? shape.expert : 1) ||
        layout.repeats(spec))
      continue;  // another rank has the same
    const Tensor values = params.masters().owned(id);
    if (values.empty()) continue;
    regions_.push_back({.weight = static_cast<std::size_t>(known - weights_.begin()),
                        .values = values,
                        .gradients = params.gradients().owned(id)});
  }
}

template <typename Look>
void ValueCounts::read(Stream& compute, const Buffer& memory, const Tensor& tensor,
                       Look look) const {
  for (std::int64_t first = 0; first < tensor.count(); first += piece_values) {
    const std::int64_t some = std::min(piece_values, tensor.count() - first);
    const Tensor piece = tensor.range(first, some);
    device_.copy(compute, memory.data(), piece.data, piece.bytes());
    compute.synchronize();
    const auto* const values = reinterpret_cast<const float*>(memory.data());
    if (!look(std::span(values, static_cast<std::size_t>(some)))) return;
  }
}

std::vector<TensorHistogram> ValueCounts::histograms(Stream& compute) {
  constexpr auto bins = static_cast<std::size_t>(SizeBins::count);
  std::vector<double> all(2 * weights_.size() * bins);
  const Buffer memory(device_, piece_values * sizeof(float), MemoryKind::host);
  for (const Region& region : regions_) {
    const auto count = [&](const Tensor& tensor, std::size_t place) {
      read(compute, memory, tensor, [&](std::span<const float> values) {
        SizeBins::add(values, std::span(all).subspan(place * bins, bins));
        return true;
      });
    };
    count(region.values, region.weight);
    count(region.gradients, weights_.size() + region.weight);
  }
  if (world_.size() > 1) world_.all_reduce(*host_, tensor_of(all), tensor_of(all), ReduceOp::sum);
  std::vector<TensorHistogram> found;
  for (std::size_t place = 0; place < 2 * weights_.size(); ++place) {
    const bool of_weights = place < weights_.size();
    const std::string& name = weights_[of_weights ? place : place - weights_.size()];
    std::vector<double> rows = SizeBins::rows_of(std::span(all).subspan(place * bins, bins));
    if (!rows.empty())
      found.push_back({(of_weights ? "weights/" : "gradients/") + name, std::move(rows)});
  }
  return found;
}

std::vector<std::string> ValueCounts::without_gradient(Stream& compute) {
  std::vector<double> alive(weights_.size());
  const Buffer memory(device_, piece_values * sizeof(float), MemoryKind::host);
  for (const Region& region : regions_) {
    read(compute, memory, region.gradients, [&](std::span<const float> values) {
      const bool zero = std::ranges::all_of(values, [](float value) { return value == 0; });
      if (!zero) alive[region.weight] = 1;
      return zero;
    });
  }
  if (world_.size() > 1)
    world_.all_reduce(*host_, tensor_of(alive), tensor_of(alive), ReduceOp::max);
  std::vector<std::string> dead;
  for (std::size_t weight = 0; weight < weights_.size(); ++weight)
    if (alive[weight] == 0) dead.push_back(weights_[weight]);
  return dead;
}

}  // namespace trireme
