// SPDX-License-Identifier: Apache-2.0
// safetensors files: a JSON header, then packed little-endian row-major tensors. The format is
// that of huggingface/safetensors (FORMAT.md). Every error is ExitCode::checkpoint and
// names the file and, where one is concerned, the tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/shape.h"

namespace trireme {

struct NamedTensor {
  std::string name;
  Tensor tensor;  // host memory
};

// Writes `tensors` as the file `path`, which appears complete or not at all: temporary file, fsync,
// rename. An existing file is replaced. Order and padding are those of the reference writer (dtype
// by alignment, widest first, then name), so the bytes do not depend on the order given. A
// zero-size tensor is stored; a tensor without data otherwise, a duplicate name, the name
// "__metadata__" or text that is not UTF-8 is refused.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

// What a file is to hold of fp32 weights, stored as f32, bf16 or f16; or a scalar of i64, whose
// value stands here.
struct PlannedTensor {
  std::string name;
  Shape shape{};
  std::optional<std::int64_t> scalar{};
  DType stored = DType::f32;
  [[nodiscard]] DType dtype() const { return scalar ? DType::i64 : stored; }
};

// The same, a tensor at a time: `values` gives the elements of tensors[i], in the file's order, but
// those of scalars. A model that is larger than the memory can be written.
void write_safetensors(const std::string& path, std::span<const PlannedTensor> tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<std::vector<float>(std::size_t)>& values);

// An open file whose header was checked in full before anything was allocated from what it claims:
// header at most 100 MB, regions contiguous, without overlap or hole, sizes equal to the product of
// the shape, file size exact, names unique. Reading is thread-safe.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  [[nodiscard]] const std::string& path() const;
  [[nodiscard]] const std::vector<std::string>& names() const;  // in the order of their data
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const;
  [[nodiscard]] bool contains(std::string_view name) const;

  // These raise an error for a name that the file lacks. A dtype without a DType (BOOL, F8_E4M3,
  // ...) or a rank above Shape::max_rank is refused here, when it is asked for, not at opening.
  [[nodiscard]] DType dtype(std::string_view name) const;
  [[nodiscard]] Shape shape(std::string_view name) const;
  [[nodiscard]] std::size_t bytes(std::string_view name) const;
  [[nodiscard]] std::uint64_t offset(std::string_view name) const;  // of its first byte in the file
  // Reads the whole tensor; `bytes` must be exactly its size.
  void read(std::string_view name, void* to, std::size_t bytes) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
