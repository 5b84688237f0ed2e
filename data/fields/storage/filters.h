// SPDX-License-Identifier: Apache-2.0
// Undoes the filters of HDF5 chunks with the library for each.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "data/fields/storage/field_index.h"

namespace trireme {

// "deflate", or the name stored in the file.
[[nodiscard]] std::string filter_name(const FilterStep& step);

// Raises ExitCode::data for an unknown filter, naming it and the fix. `subject` begins the message.
void require_known_filters(const std::string& subject, const std::vector<FilterStep>& filters);

// Whether shuffle of whole elements of `element_bytes` is the last filter to undo, for a chunk with
// all filters but those of the mask `skipped`: then unshuffle_part can do it.
[[nodiscard]] bool ends_in_shuffle(const std::vector<FilterStep>& filters, std::uint32_t skipped,
                                   std::size_t element_bytes);

// Decodes chunks. Not thread-safe.
class ChunkDecoder {
 public:
  ChunkDecoder();
  ~ChunkDecoder();
  ChunkDecoder(const ChunkDecoder&) = delete;
  ChunkDecoder& operator=(const ChunkDecoder&) = delete;

  // Undoes the filters of `stored` except those of the mask `skipped`, into exactly `to`.
  // `element_bytes` is for filters that do not store it. Raises ExitCode::data with the filter's
  // name and the reason.
  void decode(const std::vector<FilterStep>& filters, std::uint32_t skipped,
              std::span<const std::byte> stored, std::span<std::byte> to);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace trireme
