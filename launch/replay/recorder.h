// SPDX-License-Identifier: Apache-2.0
// Records the tensors of a rank's steps, one line per tensor, to compare with another execution:
// rank_N.jsonl, and with values rank_N.f32.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "runtime/nn/step_observer.h"

namespace trireme {

struct RecorderOptions {
  std::string directory;  // must exist
  int rank = 0;
  std::int64_t first = 0, last = 0;  // steps, from 1
  bool values = false;               // values too, not only digests
};

class Recorder final : public StepObserver {
 public:
  // Raises ExitCode::config if the files cannot be created.
  explicit Recorder(RecorderOptions options);

  [[nodiscard]] bool wants(std::int64_t step) const override {
    return step >= options_.first && step <= options_.last;
  }
  // Waits for the stream.
  void see(Stream& stream, const Observed& what, const Tensor& values) override;
  // Flushes the files. Raises ExitCode::internal.
  void finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;
  [[nodiscard]] File open(const std::string& name) const;
  void write(const File& file, const void* data, std::size_t bytes);

  RecorderOptions options_;
  File lines_, values_;
  std::int64_t written_ = 0;  // elements
  std::vector<float> words_;  // of a tensor
};

}  // namespace trireme
