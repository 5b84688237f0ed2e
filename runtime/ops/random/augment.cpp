// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/random/augment.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(augment);

void augment(Stream& stream, const Tensor& y, const Tensor& images, const Tensor& sample_ids,
             const Tensor& epochs, const AugmentOptions& options) {
  const Operands check("augment");
  check.compute_dtype("y", y);
  check.rank("y", y, 4);
  const bool bytes = images.dtype != DType::f32;
  check.is("images", images, bytes ? DType::u8 : DType::f32, y.shape);
  check.is("sample_ids", sample_ids, DType::i64, Shape{y.shape[0]});
  check.is("epochs", epochs, DType::i64, Shape{y.shape[0]});
  check.disjoint("y", y, "images", images);
  const std::int64_t channels = y.shape[3];
  TRIREME_EXPECTS(channels >= 1 && (channels <= 4 || !bytes),
                  "augment: y {} has {} channels, expected 1 to 4", y.shape.to_string(), channels);
  TRIREME_EXPECTS(options.crop_padding >= 0, "augment: crop padding {} is negative",
                  options.crop_padding);
  for (std::size_t c = 0; bytes && c < static_cast<std::size_t>(channels); ++c) {
    TRIREME_EXPECTS(options.stddev[c] > 0.0F, "augment: std {} of channel {} is not positive",
                    options.stddev[c], c);
  }
  TRIREME_DISPATCH(stream, augment, reads(images, sample_ids, epochs).writes(y), y, images,
                   sample_ids, epochs, options);
}

}  // namespace trireme::ops
