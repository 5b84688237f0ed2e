// SPDX-License-Identifier: Apache-2.0
// Tokens, document starts and target marks in unnamed files: a shard's header needs their number.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/shard/data_file.h"
#include "runtime/base/dtype.h"

namespace trireme {

class TokenSpool {
 public:
  // `dtype` is u16 or u32 and fits every id. `masked`: tokens come with target marks.
  TokenSpool(const std::string& directory, DType dtype, bool masked = false);

  void begin_document();
  // `counted`, for a masked spool: 1 for each target token, else 0.
  void add(std::span<const std::uint32_t> ids, std::span<const std::uint8_t> counted = {});
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }

  // Tokens as stored, and a byte for each if masked.
  using Take =
      std::function<void(std::span<const std::byte> tokens, std::span<const std::byte> counted)>;
  // Replays everything in order; calls `begin_document` before the first token of each document.
  void replay(const std::function<void()>& begin_document, const Take& take);

 private:
  void flush_starts();

  DType dtype_;
  SpoolFile ids_, starts_;
  std::optional<SpoolFile> counted_;
  std::vector<std::uint64_t> pending_starts_;
  std::vector<std::byte> stored_;
  std::uint64_t tokens_ = 0;
};

}  // namespace trireme
