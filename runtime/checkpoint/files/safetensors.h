// SPDX-License-Identifier: Apache-2.0
// safetensors files: a JSON header, then packed little-endian row-major tensors, in the format of
// huggingface/safetensors (FORMAT.md). Every error is ExitCode::checkpoint and names the file and,
// if there is one, the tensor.
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

// Writes `tensors` as the file `path` atomically: temporary file, fsync, rename. Replaces an
// existing file. Order and padding are those of the reference writer (dtype by alignment, widest
// first, then name), so the bytes do not depend on the order given. Stores zero-size tensors;
// refuses other tensors without data, duplicate names, the name "__metadata__" and text that is not
// UTF-8. Raises `code` where it cannot be written.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {},
                       ExitCode code = ExitCode::checkpoint);

// An fp32 weight that a file will hold, stored as f32, bf16 or f16; or an i64 scalar with its
// value.
struct PlannedTensor {
  std::string name;
  Shape shape{};
  std::optional<std::int64_t> scalar{};
  DType stored = DType::f32;
  [[nodiscard]] DType dtype() const { return scalar ? DType::i64 : stored; }
};

// The same, one tensor at a time, so that the model may exceed the memory: `values` returns the
// elements of tensors[i], in file order and without scalars. Raises ExitCode::internal where the
// file cannot be written.
void write_safetensors(const std::string& path, std::span<const PlannedTensor> tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<std::vector<float>(std::size_t)>& values);

// An open file. Its whole header is checked before anything is allocated by it: header at most 100
// MB, regions contiguous without overlap or hole, sizes equal to the product of the shape, exact
// file size, unique names. Reading is thread-safe.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  [[nodiscard]] const std::string& path() const;
  [[nodiscard]] const std::vector<std::string>& names() const;  // in data order
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const;
  [[nodiscard]] bool contains(std::string_view name) const;

  // Raise an error for a name that the file lacks. A dtype without a DType (BOOL, F8_E4M3, ...) or
  // a rank above Shape::max_rank is refused here, not at opening.
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
