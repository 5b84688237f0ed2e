// SPDX-License-Identifier: Apache-2.0
// The training thread's current activity, for traces and the watchdog. A step without progress for
// as long as a call may wait for other ranks ends the job like a stuck call; dumps show each rank's
// activity.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// Exempt from deadlines: writing may take long, also after SIGTERM.
inline constexpr std::string_view saving_activity = "saving a checkpoint";

// While it exists, the time between two set_activity() of this process has a deadline. One per
// process.
class StepWatch {
 public:
  StepWatch();
  ~StepWatch();
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;
};

// `what` is a literal: "forward", "waiting for data". The step is that of set_comm_step(). Takes a
// briefly held lock; does not allocate. Does nothing without a StepWatch.
void set_activity(std::string_view what, int chunk = -1, int micro_batch = -1) noexcept;

struct Activity {
  std::string_view what{};
  int chunk = -1, micro_batch = -1;
  std::int64_t step = -1;
  std::chrono::steady_clock::time_point since{};

  // `step 12: forward of chunk 0, micro-batch 3, for 4.2 s`
  [[nodiscard]] std::string to_string() const;
};
// Of this process, if it has a StepWatch.
[[nodiscard]] std::optional<Activity> current_activity() noexcept;

}  // namespace trireme
