// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/files/stored_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

constexpr std::int64_t piece_elements = std::int64_t{1} << 18;
constexpr std::size_t files_open = 64;  // of possibly thousands

// The smallest and largest index in the whole tensor of a range's elements.
std::pair<std::int64_t, std::int64_t> bounds_of(const StoredRange& range) {
  std::int64_t min = std::numeric_limits<std::int64_t>::max(), max = -1;
  for (std::int64_t at = range.first, end = range.first + range.count; at < end;) {
    const std::int64_t local = at / range.block_count, start = at % range.block_count;
    const std::int64_t stop = std::min(end - local * range.block_count, range.block_count);
    min = std::min(min, range.blocking.logical(range.first_block + local, start));
    max = std::max(max, range.blocking.logical(range.first_block + local, stop - 1));
    at += stop - start;
  }
  return {min, max};
}

// The first of [from, to) for which `holds` is true (it then is for all after it); `to` if none.
template <typename Holds>
std::int64_t first_where(std::int64_t from, std::int64_t to, Holds&& holds) {
  while (from < to) {
    const std::int64_t middle = from + (to - from) / 2;
    holds(middle) ? to = middle : from = middle + 1;
  }
  return from;
}

// Copies `count` contiguous elements of the whole tensor, from `logical` on, to their places in
// `range`.
void scatter(const float* from, std::int64_t logical, std::int64_t count, const StoredRange& range,
             float* to) {
  for (std::int64_t n = 0; count > 0; logical += n, from += n, count -= n) {
    const Blocking::Place place = range.blocking.place(logical);
    n = std::min(count, range.blocking.neighbours(place.i));
    const std::int64_t local = place.block - range.first_block;
    if (local < 0 || local >= range.local_blocks) continue;
    const std::int64_t stored = local * range.block_count + place.i;
    const std::int64_t begin = std::max(stored, range.first);
    const std::int64_t end = std::min(stored + n, range.first + range.count);
    if (begin < end) std::copy_n(from + (begin - stored), end - begin, to + (begin - range.first));
  }
}

}  // namespace

StoredValues stored_values(const std::string& path, const Manifest& manifest, ValueKind kind) {
  StoredValues values;
  for (const ManifestTensor& tensor : manifest.tensors) {
    if (has_value(tensor.kind, kind))
      values.tensors[tensor.name] = {tensor.shape, tensor.blocking, {}};
  }
  for (const ManifestFile& file : manifest.files) {
    values.files.push_back(path + "/" + file.name);
    std::uint64_t offset = file.offsets[static_cast<std::size_t>(kind)];
    for (const ManifestSlice& slice : file.slices) {
      const ManifestTensor& tensor = manifest.tensors[static_cast<std::size_t>(slice.tensor)];
      if (!has_value(tensor.kind, kind)) continue;
      values.tensors[tensor.name].slices.push_back({static_cast<int>(values.files.size()) - 1,
                                                    offset, slice.block, slice.first, slice.count});
      offset += static_cast<std::uint64_t>(slice.count) * sizeof(float);
    }
  }
  return values;
}

void StoredReader::read(const StoredTensor& tensor, const StoredRange& range, float* to) {
  for (const StoredSlice& slice : tensor.slices) {
    if (tensor.blocking == range.blocking) {
      read_aligned(slice, range, to);
    } else {
      read_scattered(tensor, slice, range, to);
    }
  }
}

std::vector<float> StoredReader::whole(const StoredTensor& tensor) {
  const std::int64_t count = tensor.shape.count();
  std::vector<float> values(static_cast<std::size_t>(count));
  read(tensor, {.blocking = {1, count}, .block_count = count, .count = count}, values.data());
  return values;
}

// Without a branch, for vector instructions.
bool all_finite(std::span<const float> values) {
  bool finite = true;
  for (const float value : values)
    finite &= std::isfinite(value);
  return finite;
}

std::string first_non_finite(const StoredValues& values) {
  StoredReader reader(values);
  for (const auto& [name, tensor] : values.tensors)
    if (!all_finite(reader.whole(tensor))) return name;
  return "";
}

void StoredReader::read_aligned(const StoredSlice& slice, const StoredRange& range, float* to) {
  const std::int64_t local = slice.block - range.first_block;
  if (local < 0 || local >= range.local_blocks) return;
  const std::int64_t start = local * range.block_count + slice.first;
  const std::int64_t begin = std::max(start, range.first);
  const std::int64_t end = std::min(start + slice.count, range.first + range.count);
  if (begin < end) read_elements(slice, begin - start, end - begin, to + (begin - range.first));
}

void StoredReader::read_scattered(const StoredTensor& tensor, const StoredSlice& slice,
                                  const StoredRange& range, float* to) {
  const auto [min, max] = bounds_of(range);
  const Blocking& blocking = tensor.blocking;
  const auto logical = [&](std::int64_t i) { return blocking.logical(slice.block, i); };
  // Elements of a block are in the order of the whole tensor.
  const std::int64_t end = slice.first + slice.count;
  const std::int64_t first =
      first_where(slice.first, end, [&](std::int64_t i) { return logical(i) >= min; });
  const std::int64_t last =
      first_where(first, end, [&](std::int64_t i) { return logical(i) > max; });
  for (std::int64_t at = first, count = 0; at < last; at += count) {
    count = std::min(last - at, piece_elements);
    piece_.resize(static_cast<std::size_t>(count));
    read_elements(slice, at - slice.first, count, piece_.data());
    for (std::int64_t i = at, n = 0; i < at + count; i += n) {
      n = std::min(blocking.neighbours(i), at + count - i);
      scatter(piece_.data() + (i - at), logical(i), n, range, to);
    }
  }
}

void StoredReader::read_elements(const StoredSlice& slice, std::int64_t first, std::int64_t count,
                                 float* to) {
  const std::string& path = values_.files[static_cast<std::size_t>(slice.file)];
  if (!open_.contains(slice.file)) {
    if (open_.size() >= files_open) open_.clear();
    open_[slice.file] = open_regular_file(path, ExitCode::checkpoint);
  }
  const auto bytes = std::as_writable_bytes(std::span(to, static_cast<std::size_t>(count)));
  read_exactly(open_[slice.file], path,
               slice.offset + static_cast<std::uint64_t>(first) * sizeof(float), bytes,
               ExitCode::checkpoint);
  bytes_ += bytes.size();
}

}  // namespace trireme
