// SPDX-License-Identifier: Apache-2.0
// The file of keep_in() in log.h, a copy of the console's output. Private to log.cpp and its tests.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace trireme::log {

// One per process; all loggers write to it. Buffers a few pages of lines until it is opened.
class LogFile : public spdlog::sinks::base_sink<std::mutex> {
 public:
  [[nodiscard]] static const std::shared_ptr<LogFile>& of_process();

  void open(const std::string& path, bool create);
  // One write() per line, so lines of several processes do not mix on a local file system.
  void append(spdlog::level::level_enum level, int rank, std::string_view subsystem,
              std::string_view line) const noexcept;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  std::atomic<int> descriptor_ = -1;  // stays open: any thread may be writing
  std::string remembered_;
};

}  // namespace trireme::log
