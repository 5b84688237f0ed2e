// SPDX-License-Identifier: Apache-2.0
// The files of a run directory, as a run writes them.
#pragma once

#include <fcntl.h>

#include <filesystem>
#include <fstream>

#include "models/config.h"
#include "runtime/base/file.h"
#include "runtime/telemetry/metrics.h"
#include "tests/support/temporary_directory.h"

namespace trireme::test {

// Its step lines: 100 ms each, with 20 of data wait.
class RunFiles {
 public:
  explicit RunFiles(std::string path) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

  void append(const std::string& text, const std::string& name = "metrics.jsonl") const {
    std::ofstream(file(name), std::ios::app) << text;
  }
  [[nodiscard]] static std::string step_line(std::int64_t step, double loss) {
    return format_json(StepMetrics{.step = step,
                                   .loss = loss,
                                   .learning_rate = 1e-3,
                                   .grad_norm = 0.75,
                                   .items = 4096,
                                   .targets = 4096,
                                   .times = {{TimePart::step, 100},
                                             {TimePart::forward, 30},
                                             {TimePart::backward, 50},
                                             {TimePart::data_wait, 20}},
                                   .items_seen = 4096 * step},
                       ItemKind::tokens);
  }
  void steps(std::int64_t first, std::int64_t last, double loss = 2.5) const {
    std::string text;
    for (std::int64_t step = first; step <= last; ++step)
      text += step_line(step, loss);
    append(text);
  }
  void config(std::int64_t steps) const {
    Config config = default_config();
    config.train.steps = steps;
    write_text(file("config.yaml"), to_yaml(config));
  }
  // The lock that a running job has, as long as the object lives.
  [[nodiscard]] FileDescriptor lock() const {
    FileDescriptor held(::open(file("owner.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (::fcntl(held.get(), F_OFD_SETLK, &whole) != 0) throw std::runtime_error("no lock");
    return held;
  }

 private:
  std::string path_;
};

}  // namespace trireme::test
