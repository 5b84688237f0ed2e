// SPDX-License-Identifier: Apache-2.0
#include "data/sets/image_dataset.h"

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Bytes of an image whose reading hides that of its label.
constexpr std::size_t large_image = 128 * 1024;

}  // namespace

void check_labels(const Shard& shard, std::uint64_t first, std::span<const std::int32_t> labels) {
  const auto classes = static_cast<std::int64_t>(shard.header.classes.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0 && labels[i] < classes) continue;
    fail(ExitCode::data,
         "{}: image {} has label {}, outside its {} classes (0..{}): the shard is damaged; check "
         "it with "
         "`trireme data inspect --verify` and re-pack",
         shard.path, first + i, labels[i], classes, classes - 1);
  }
}

ImageDataset::ImageDataset(ShardSet shards) : shards_(std::move(shards)) {
  const ShardHeader& header = shards_.shards().front().header;
  layout_ = image_samples(static_cast<std::int64_t>(header.height),
                          static_cast<std::int64_t>(header.width),
                          static_cast<std::int64_t>(header.channels));
  if (layout_.input_bytes() >= large_image) return;
  labels_.resize(shards_.elements());
  for (std::size_t i = 0; i < shards_.shards().size(); ++i) {
    const Shard& shard = shards_.shards()[i];
    const auto part = std::span(labels_).subspan(shards_.start_of(i), shard.header.count);
    shards_.read_index(i, 0, std::as_writable_bytes(part), {});
    check_labels(shard, 0, part);
  }
}

void ImageDataset::read(std::int64_t index, std::span<std::byte> inputs,
                        std::span<std::int32_t> targets) const {
  check_request(index, inputs, targets);
  const auto position = static_cast<std::uint64_t>(index);
  const std::size_t which = shards_.shard_of(position);
  const std::uint64_t at = position - shards_.start_of(which);
  shards_.read(which, at * inputs.size(), inputs, index);
  if (!labels_.empty()) {
    targets[0] = labels_[position];
    return;
  }
  shards_.read_index(which, at * sizeof(std::int32_t), std::as_writable_bytes(targets), index);
  check_labels(shards_.shards()[which], at, targets);
}

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
