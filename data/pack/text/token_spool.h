// SPDX-License-Identifier: Apache-2.0
// Tokens and where documents begin, in nameless files: shards say at their start how many they
// hold.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/shard/file.h"
#include "runtime/base/dtype.h"

namespace trireme {

class TokenSpool {
 public:
  // `dtype` is u16 or u32, into which every id fits.
  TokenSpool(const std::string& directory, DType dtype);

  void begin_document();
  void add(std::span<const std::uint32_t> ids);
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }

  // All of it, in order: `begin_document` before the first token of each document, `take` with
  // tokens as they are stored.
  void replay(const std::function<void()>& begin_document,
              const std::function<void(std::span<const std::byte>)>& take);

 private:
  void flush_starts();

  DType dtype_;
  SpoolFile ids_, starts_;
  std::vector<std::uint64_t> pending_starts_;
  std::vector<std::byte> stored_;
  std::uint64_t tokens_ = 0;
};

}  // namespace trireme
