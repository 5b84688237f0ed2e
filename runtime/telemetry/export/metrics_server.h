// SPDX-License-Identifier: Apache-2.0
// http://HOST:PORT/metrics on all IPv4 interfaces, served by one thread that waits for no
// reader. prometheus-cpp's server gives its threads 100 KB of stack, less than cuBLAS' thread-local
// data needs: no GPU build could answer.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "runtime/base/file.h"

namespace trireme {

class MetricsServer {
 public:
  // Listens on an IPv4 address of this host. `text` returns the answer in Prometheus' text format;
  // the thread calls it. Raises ExitCode::config if that fails.
  MetricsServer(const std::string& address, int port, std::function<std::string()> text);
  // Within a moment, whoever is being answered.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

 private:
  struct Reader;
  void serve() const;
  // Reads or sends what it can now; true: the reader is done.
  bool serve(Reader& reader) const;
  [[nodiscard]] std::string response_to(const std::string& request) const;

  std::function<std::string()> text_;
  FileDescriptor listener_, end_;  // end_: an event that ends the thread
  std::thread thread_;
};

}  // namespace trireme
