// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/activation_counts.h"

#include <algorithm>
#include <utility>

#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/comm/host_stream.h"
#include "runtime/train/meters/value_counts.h"

namespace trireme {
namespace {

constexpr std::int64_t activation_piece = 1 << 15;
constexpr auto bins_of_layer = static_cast<std::size_t>(SizeBins::count);

template <typename Element>
void widen(const std::byte* from, std::span<float> to) {
  const auto* const elements = reinterpret_cast<const Element*>(from);
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<float>(elements[i]);
}

void widen(const std::byte* from, DType dtype, std::span<float> to) {
  if (dtype == DType::bf16) return widen<bf16>(from, to);
  if (dtype == DType::f16) return widen<f16>(from, to);
  TRIREME_EXPECTS(dtype == DType::f32, "activations of {} are not counted", name_of(dtype));
  widen<float>(from, to);
}

}  // namespace

ActivationCounts::ActivationCounts(Device& device, const ProcessMesh& mesh,
                                   std::vector<Layer> layers, std::int64_t every)
    : device_(device),
      mesh_(mesh),
      layers_(std::move(layers)),
      every_(every),
      piece_(device, activation_piece * sizeof(float), MemoryKind::host),
      floats_(static_cast<std::size_t>(activation_piece)),
      bins_(layers_.size() * bins_of_layer) {
  for (const Layer& layer : layers_)
    TRIREME_EXPECTS(layer.held == layer.whole || layer.held * mesh.shape().tensor == layer.whole,
                    "{}: a rank holds {} of {} activations", layer.name, layer.held, layer.whole);
}

// A step's first micro-batch belongs to the first data rank on any layout, or to the first ranks
// that share its sequences.
bool ActivationCounts::wants(std::int64_t step) const {
  return step % every_ == 0 && sample_of(mesh_.shape(), mesh_.here()) == 0;
}

void ActivationCounts::see(Stream& stream, const Observed& what, const Tensor& values) {
  if (what.what != Seen::activation || what.received || what.micro_batch != 0) return;
  const auto place = static_cast<std::size_t>(what.layer);
  const Layer& layer = layers_[place];
  if (layer.whole == 0) return;  // in heads these are losses
  // Replicated tensors are counted by tensor rank 0 only.
  if (layer.held == layer.whole && mesh_.here().tensor > 0) return;
  const std::span bins = std::span(bins_).subspan(place * bins_of_layer, bins_of_layer);
  for (std::int64_t first = 0; first < values.count(); first += activation_piece) {
    const std::int64_t some = std::min(activation_piece, values.count() - first);
    const Tensor piece = values.range(first, some);
    device_.copy(stream, piece_.data(), piece.data, piece.bytes());
    stream.synchronize();
    const std::span floats = std::span(floats_).first(static_cast<std::size_t>(some));
    widen(piece_.data(), values.dtype, floats);
    SizeBins::add(floats, bins);
  }
}

std::vector<TensorHistogram> ActivationCounts::take() {
  if (mesh_.world().size() > 1) {
    const HostStream stream;
    const Tensor all{reinterpret_cast<std::byte*>(bins_.data()), DType::f64,
                     Shape{std::ssize(bins_)}};
    mesh_.world().all_reduce(*stream, all, all, ReduceOp::sum);
  }
  std::vector<TensorHistogram> found;
  for (std::size_t place = 0; place < layers_.size(); ++place) {
    std::vector<double> rows =
        SizeBins::rows_of(std::span(bins_).subspan(place * bins_of_layer, bins_of_layer));
    if (!rows.empty()) found.push_back({"activations/" + layers_[place].name, std::move(rows)});
  }
  std::ranges::fill(bins_, 0);
  return found;
}

}  // namespace trireme
