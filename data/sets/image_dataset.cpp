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

}  // namespace trireme
