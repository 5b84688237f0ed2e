// SPDX-License-Identifier: Apache-2.0
// The filters of HDF5 chunks, undone: each by the library that is known for it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "data/fields/storage/field_index.h"

namespace trireme {

// "deflate", or the name that a file gives.
[[nodiscard]] std::string filter_name(const FilterStep& step);

// Raises ExitCode::data, naming the filter and what to do about it, for one that is not known here.
// `subject` begins the message.
void require_known_filters(const std::string& subject, const std::vector<FilterStep>& filters);

// Whether shuffle of whole elements of `element_bytes` is the last filter to be undone of a chunk
// that has gone through all but those of the mask `skipped`: unshuffle_part may do that.
[[nodiscard]] bool ends_in_shuffle(const std::vector<FilterStep>& filters, std::uint32_t skipped,
                                   std::size_t element_bytes);

// Decodes chunks. For one thread.
class ChunkDecoder {
 public:
  ChunkDecoder();
  ~ChunkDecoder();
  ChunkDecoder(const ChunkDecoder&) = delete;
  ChunkDecoder& operator=(const ChunkDecoder&) = delete;

  // Undoes the filters of `stored`, but for those of the mask `skipped`, into exactly `to`.
  // `element_bytes` for filters that do not say it. Raises ExitCode::data with the filter's name
  // and the reason.
  void decode(const std::vector<FilterStep>& filters, std::uint32_t skipped,
              std::span<const std::byte> stored, std::span<std::byte> to);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace trireme
