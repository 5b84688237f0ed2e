// SPDX-License-Identifier: Apache-2.0
// Runs the HDF5 library on untrusted files. A malicious file can crash the library, so it runs in a
// child process with limits on memory and time; a file that ends the child is an error naming the
// file. The child is this program itself, started as `PROGRAM hdf5-child`: nothing else need be
// installed, and it uses neither MPI nor CUDA.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/hdf5/field_scan.h"
#include "data/hdf5/shard_facts.h"
#include "runtime/base/file.h"

namespace trireme {

// Call it first in main in a program that opens packed shards or HDF5 files. Returns, or, if the
// program was started as such a child, answers its parent and ends the process.
void serve_hdf5_child(int argc, char** argv);

// The first question starts the child; the destructor ends it. Thread-safe; one question at a time.
// Questions raise ExitCode::data, naming the file, if it cannot be read.
class Hdf5Child {
 public:
  // The shared child, created on demand. Hold it while asking about many files.
  [[nodiscard]] static std::shared_ptr<Hdf5Child> shared();

  Hdf5Child() = default;
  ~Hdf5Child();
  Hdf5Child(const Hdf5Child&) = delete;
  Hdf5Child& operator=(const Hdf5Child&) = delete;

  [[nodiscard]] FileIndex index(const std::string& path, const ScanRequest& request);
  [[nodiscard]] ShardFacts shard(const std::string& path);

 private:
  [[nodiscard]] std::string ask(const std::string& path, const ScanRequest* request);
  void start();
  int end();  // returns the exit status

  std::mutex mutex_;
  FileDescriptor socket_;
  pid_t process_ = -1;
};

// The indexes of `paths`, in order, from up to `processes` children. Raises ExitCode::data naming
// the first file that cannot be read.
[[nodiscard]] std::vector<FileIndex> scan_in_children(std::span<const std::string> paths,
                                                      const ScanRequest& request,
                                                      std::size_t processes);

}  // namespace trireme
