// SPDX-License-Identifier: Apache-2.0
// Writes a shard as a stream; the payload need not fit in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/shard/shard.h"

namespace trireme {

// The file appears as `path` only when finish() has written, checksummed and synced all of it;
// before, it has a temporary name, which the destructor removes. Space for the whole payload is
// reserved first, so a full disk shows at once. Errors: ExitCode::internal for a full disk or a
// failed write.
class ShardWriter {
 public:
  // `header` must be complete except for `documents`, `counted` and `payload_checksum`.
  ShardWriter(std::string path, ShardHeader header);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Appends `count` tokens (of the header's dtype) or images.
  void write(const void* elements, std::uint64_t count);
  // Exactly header.count elements must have been written. Tokens: the start of each document in
  // this shard (first 0), then header.count. `loss_mask`: loss_mask_bytes(header.count) bytes, or
  // empty if all tokens are targets; of texts with targets the bytes of these.
  void finish(std::span<const std::uint64_t> document_offsets,
              std::span<const std::byte> loss_mask = {});
  // Images: header.count labels.
  void finish(std::span<const std::int32_t> labels);

 private:
  struct State;
  void commit(const char* name, std::int64_t type, std::span<const std::byte> index,
              std::uint64_t elements, std::span<const std::byte> mask = {});

  std::unique_ptr<State> state_;
};

}  // namespace trireme
