// SPDX-License-Identifier: Apache-2.0
#include "data/sets/float_images.h"

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::size_t levels = 256;  // values of a byte

}  // namespace

FloatImages::FloatImages(std::unique_ptr<const Dataset> images, std::span<const double> mean,
                         std::span<const double> std)
    : images_(std::move(images)), layout_(images_->layout()) {
  TRIREME_EXPECTS(layout_.input_dtype == DType::u8, "pictures of bytes");
  layout_.input_dtype = DType::f32;
  const auto channels = static_cast<std::size_t>(layout_.inputs[2]);
  for (const std::span<const double>& given : {mean, std}) {
    if (!given.empty() && given.size() != channels)
      fail(ExitCode::data, "mean and std of {} channels, and the images have {}", given.size(),
           channels);
  }
  values_.resize(channels * levels);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const std::size_t c = i / levels;
    const float subtract = mean.empty() ? 0.0F : static_cast<float>(mean[c]),
                divide = std.empty() ? 1.0F : static_cast<float>(std[c]);
    values_[i] = (static_cast<float>(i % levels) / 255.0F - subtract) / divide;
  }
}

void FloatImages::read_in_epoch(std::int64_t epoch, std::int64_t index, std::span<std::byte> inputs,
                                std::span<std::int32_t> targets) const {
  check_request(index, inputs, targets);
  const std::span to(reinterpret_cast<float*>(inputs.data()), inputs.size() / sizeof(float));
  // The bytes are at the end of the floats' memory, so each is read before it is overwritten.
  const std::span<std::byte> bytes = inputs.last(to.size());
  images_->read_in_epoch(epoch, index, bytes, targets);
  const std::size_t channels = values_.size() / levels;
  for (std::size_t i = 0; i < to.size(); i += channels) {
    for (std::size_t c = 0; c < channels; ++c)
      to[i + c] = values_[c * levels + static_cast<std::size_t>(bytes[i + c])];
  }
}

}  // namespace trireme
