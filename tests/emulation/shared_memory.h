// SPDX-License-Identifier: Apache-2.0
// The dynamic shared memory of the block that a host thread runs: of the launch's size, with its
// end (to 16 bytes) at a page that faults. Writes to the bytes in between are detected when the
// block ends.
#pragma once

#include <cstddef>

namespace trireme::emulated {

class SharedMemory {
 public:
  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void resize(std::size_t bytes);
  // All bits set: NaNs.
  void fill();
  // Whether the bytes between its end and the page's end are as fill() left them.
  [[nodiscard]] bool intact() const;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* base_;  // of the mapping
  std::byte* data_;
  std::size_t bytes_ = 0;
};

}  // namespace trireme::emulated
