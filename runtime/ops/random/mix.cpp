// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/random/mix.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(choose_mix, mix_images);

namespace {

void check_choice(const Operands& check, const Tensor& shares, const Tensor& boxes,
                  std::int64_t batch) {
  check.is("shares", shares, DType::f32, Shape{batch});
  check.is("boxes", boxes, DType::i32, Shape{batch, MixBox::count});
}

}  // namespace

void choose_mix(Stream& stream, const Tensor& shares, const Tensor& boxes, const Tensor& sample_ids,
                const Tensor& epochs, const MixOptions& options) {
  const Operands check("choose_mix");
  const std::int64_t batch = sample_ids.count();
  check_choice(check, shares, boxes, batch);
  check.is("sample_ids", sample_ids, DType::i64, Shape{batch});
  check.is("epochs", epochs, DType::i64, Shape{batch});
  check.disjoint("shares", shares, "boxes", boxes);
  const auto allowed = [](double value) { return value >= 0 && value <= max_mix_parameter; };
  TRIREME_EXPECTS(allowed(options.mixup) && allowed(options.cutmix) && options.mixes(),
                  "choose_mix: mixup {} and CutMix {}, expected 0 to {}, not both 0", options.mixup,
                  options.cutmix, max_mix_parameter);
  TRIREME_EXPECTS(options.height >= 1 && options.width >= 1, "choose_mix: pictures of {} x {}",
                  options.height, options.width);
  TRIREME_DISPATCH(stream, choose_mix, reads(sample_ids, epochs).writes(shares, boxes), shares,
                   boxes, sample_ids, epochs, options);
}

void mix_images(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& shares,
                const Tensor& boxes) {
  const Operands check("mix_images");
  check.compute_dtype("y", y);
  check.rank("y", y, 4);
  check.is("x", x, y.dtype, y.shape);
  check.disjoint("y", y, "x", x);
  check_choice(check, shares, boxes, y.shape[0]);
  TRIREME_DISPATCH(stream, mix_images, reads(x, shares, boxes).writes(y), y, x, shares, boxes);
}

}  // namespace trireme::ops
