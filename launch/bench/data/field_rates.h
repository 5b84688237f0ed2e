// SPDX-License-Identifier: Apache-2.0
// Reading speed of HDF5 files in place, a sample a file: pread of the stored bytes, the decoder
// alone behind it, our reader, h5py and PyTorch's DataLoader with h5py in its workers.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

struct FieldBench {
  std::string files;   // file, directory or pattern
  std::string input;   // path of the data set
  std::string target;  // of the labels
  std::string axes = "HWC";
  std::int64_t threads = 1;    // of the second group of rows
  std::int64_t megabytes = 1;  // stored bytes touched at most
  std::int64_t rounds = 1;     // per method; the best counts
  double seconds = 0;          // of a round
  std::string python, script = "scripts/bench_h5py_fields.py";
};

void bench_fields(const FieldBench& bench);

}  // namespace trireme
