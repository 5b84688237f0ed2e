// SPDX-License-Identifier: Apache-2.0
#include "launch/replay/recorder.h"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/ops/update/digest.h"
#include "runtime/telemetry/certificate/certificate.h"

namespace trireme {
namespace {

// The bits of element i, widened: bf16 as f32 (its upper half), others with zeros.
std::uint32_t word_of(const std::byte* data, DType dtype, std::int64_t i) {
  const std::size_t size = size_of(dtype);
  std::uint32_t word = 0;
  std::memcpy(&word, data + static_cast<std::size_t>(i) * size, std::min(size, sizeof(word)));
  return dtype == DType::bf16 ? word << 16U : word;
}

}  // namespace

Recorder::Recorder(RecorderOptions options) : options_(std::move(options)) {
  lines_ = open(fmt::format("rank_{}.jsonl", options_.rank));
  if (options_.values) values_ = open(fmt::format("rank_{}.f32", options_.rank));
}

Recorder::File Recorder::open(const std::string& name) const {
  const std::string path = options_.directory + "/" + name;
  File file(std::fopen(path.c_str(), "wb"));
  if (!file)
    fail(ExitCode::config, "--record: {}: cannot be written: {}", path, std::strerror(errno));
  return file;
}

void Recorder::write(const File& file, const void* data, std::size_t bytes) {
  if (std::fwrite(data, 1, bytes, file.get()) == bytes) return;
  fail(ExitCode::internal, "--record: {}: {}", options_.directory, std::strerror(errno));
}

void Recorder::see(Stream& stream, const Observed& what, const Tensor& values) {
  const Buffer host(stream.device(), values.bytes(), MemoryKind::host);
  stream.device().copy(stream, host.data(), values.data, values.bytes());
  stream.synchronize();
  const auto count = static_cast<std::size_t>(values.count());
  words_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = word_of(host.data(), values.dtype, static_cast<std::int64_t>(i));
    std::memcpy(&words_[i], &word, sizeof(word));
  }
  const ops::DigestPlaces places{.base = static_cast<std::uint64_t>(what.base),
                                 .width = what.width,
                                 .stride = what.stride,
                                 .first = what.first};
  const nlohmann::ordered_json line = {
      {"step", what.step},
      {"what", static_cast<int>(what.what)},
      {"micro_batch", what.micro_batch},
      {"layer", what.layer},
      {"name", what.name},
      {"received", what.received},
      {"places", {what.base, what.width, what.stride, what.first, values.count()}},
      {"float", values.dtype == DType::f32 || values.dtype == DType::bf16},
      {"digest", ops::host_digest(words_, places)},
      {"at", options_.values ? written_ : -1}};
  const std::string text = line.dump() + "\n";
  write(lines_, text.data(), text.size());
  if (!options_.values) return;
  write(values_, words_.data(), count * sizeof(float));
  written_ += values.count();
}

void Recorder::finish() {
  for (const File* const file : {&lines_, &values_})
    if (*file && std::fflush(file->get()) != 0)
      fail(ExitCode::internal, "--record: {}: {}", options_.directory, std::strerror(errno));
}

}  // namespace trireme
