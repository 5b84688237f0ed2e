// SPDX-License-Identifier: Apache-2.0
// http://HOST:PORT/metrics on all IPv4 interfaces, answered by a thread of its own, one reader
// after the other. prometheus-cpp's server gives its threads 100 KB of stack, less than the
// thread-local data of cuBLAS takes: with it no build for GPUs could answer.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "runtime/base/file.h"

namespace trireme {

class MetricsServer {
 public:
  // `text` gives what is answered, in Prometheus' text format; the thread calls it. Raises
  // ExitCode::config where the port is not to be had.
  MetricsServer(int port, std::function<std::string()> text);
  // Within a moment, whoever is being answered.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

 private:
  void serve() const;
  void answer(const FileDescriptor& peer) const;
  [[nodiscard]] std::string response_to(const std::string& request) const;

  std::function<std::string()> text_;
  FileDescriptor listener_, end_;  // end_: an event that ends the thread
  std::thread thread_;
};

}  // namespace trireme
