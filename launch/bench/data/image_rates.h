// SPDX-License-Identifier: Apache-2.0
// Reading speed of images in place: pread of the stored bytes, full decoding, our reader with
// random resized crops, the loader to device batches, and torchvision with PyTorch's DataLoader.
#pragma once

#include <cstdint>
#include <string>

#include "launch/bench/data/reading.h"

namespace trireme {

struct ImageBench : BenchSize {
  std::string images;  // archive, directory or pattern
  std::string label = "cls";
  std::int64_t side = 224;  // of samples
  std::string script = "scripts/peers/bench_torchvision.py";
};

void bench_images(const ImageBench& bench);

}  // namespace trireme
