// SPDX-License-Identifier: Apache-2.0
// What the calls of a thread are about: training step and tensor, for messages about a call that
// hangs or disagrees. Setting them is a thread-local store; each call that is watched or checked
// copies them when it is enqueued. Nothing allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

struct CommLabel {
  std::int64_t step = -1;       // -1: not in a step
  std::array<char, 64> text{};  // ends with a zero; longer text was cut

  // ` "bucket 3" of step 12`, with a space in front; what is not set is left out.
  [[nodiscard]] std::string to_string() const;
};

// Of the calling thread.
[[nodiscard]] CommLabel current_comm_label() noexcept;
void set_comm_step(std::int64_t step) noexcept;

// Names the tensor of the calls that this thread enqueues during the object's life; scopes nest.
// `text` must outlive the object.
class ScopedCommLabel {
 public:
  explicit ScopedCommLabel(std::string_view text) noexcept;
  ~ScopedCommLabel();
  ScopedCommLabel(const ScopedCommLabel&) = delete;
  ScopedCommLabel& operator=(const ScopedCommLabel&) = delete;

 private:
  std::string_view outer_;
};

}  // namespace trireme
