// SPDX-License-Identifier: Apache-2.0
// The training step and tensor of a thread's calls, for messages about a call that hangs or
// disagrees. Setting them is a thread-local store; watched and checked calls copy them when
// enqueued. Nothing allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

struct CommLabel {
  std::int64_t step = -1;       // -1: not in a step
  std::array<char, 64> text{};  // zero-terminated; longer text is cut

  // ` "bucket 3" of step 12`, with a leading space; omits what is not set.
  [[nodiscard]] std::string to_string() const;
};

// The calling thread's label.
[[nodiscard]] CommLabel current_comm_label() noexcept;
void set_comm_step(std::int64_t step) noexcept;

// Names the tensor of the calls that this thread enqueues during the object's life; scopes nest.
// `text` must outlive the object.
class ScopedCommLabel {
 public:
  explicit ScopedCommLabel(std::string_view text) noexcept;
  // Restores step and tensor of an enqueued call.
  explicit ScopedCommLabel(const CommLabel& label) noexcept;
  ~ScopedCommLabel();
  ScopedCommLabel(const ScopedCommLabel&) = delete;
  ScopedCommLabel& operator=(const ScopedCommLabel&) = delete;

 private:
  CommLabel adopted_;
  std::string_view outer_text_;
  std::optional<std::int64_t> outer_step_;
};

}  // namespace trireme
