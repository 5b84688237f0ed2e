// SPDX-License-Identifier: Apache-2.0
// Reading speed of HDF5 files in place, one sample per file: pread of the stored bytes, the decoder
// alone after it, our reader, h5py, and PyTorch's DataLoader with h5py in its workers.
#pragma once

#include <string>

#include "launch/bench/data/reading.h"

namespace trireme {

struct FieldBench : BenchSize {
  std::string files;   // file, directory or pattern
  std::string input;   // path of the data set
  std::string target;  // of the labels
  std::string axes = "HWC";
  std::string script = "scripts/peers/bench_h5py_fields.py";
};

void bench_fields(const FieldBench& bench);

}  // namespace trireme
