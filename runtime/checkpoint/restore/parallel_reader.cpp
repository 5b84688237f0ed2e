// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/restore/parallel_reader.h"

#include <algorithm>
#include <future>

namespace trireme {
namespace {

// Fewer elements are not worth a thread.
constexpr std::int64_t min_elements = std::int64_t{1} << 20;

}  // namespace

void run_in_parallel(int count, const std::function<void(int)>& work) {
  std::vector<std::future<void>> others;  // the destructor of an async() future waits
  for (int i = 1; i < count; ++i)
    others.push_back(std::async(std::launch::async, work, i));
  work(0);
  for (std::future<void>& other : others)
    other.get();
}

void ParallelReader::read(const StoredTensor& tensor, const StoredRange& range, float* to) {
  const std::int64_t parts =
      std::clamp<std::int64_t>(range.count / min_elements, 1, reading_threads);
  run_in_parallel(static_cast<int>(parts), [&](int part) {
    const std::int64_t begin = range.count * part / parts, end = range.count * (part + 1) / parts;
    StoredRange own = range;
    own.first += begin;
    own.count = end - begin;
    readers_[static_cast<std::size_t>(part)].read(tensor, own, to + begin);
  });
}

std::uint64_t ParallelReader::bytes_read() const {
  std::uint64_t bytes = 0;
  for (const StoredReader& reader : readers_)
    bytes += reader.bytes_read();
  return bytes;
}

}  // namespace trireme
