// SPDX-License-Identifier: Apache-2.0
// A model's weights in one safetensors file, or in several with an index (Hugging Face's
// model.safetensors.index.json).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/checkpoint/files/safetensors.h"
#include "runtime/checkpoint/files/stored_values.h"

namespace trireme {

class WeightFiles {
 public:
  // A .safetensors file, an .index.json, or a directory with model.safetensors, its index, or a
  // run's weights.safetensors.
  explicit WeightFiles(const std::string& path);

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] bool contains(std::string_view name) const { return of_.contains(name); }
  // The file that holds a tensor; raises ExitCode::checkpoint for an unknown name.
  [[nodiscard]] const SafetensorsFile& file_of(std::string_view name) const;
  // Converts F32, BF16, F16 or F64 to floats.
  [[nodiscard]] std::vector<float> read(std::string_view name) const;

 private:
  void add(const std::string& path);
  void add_index(const std::string& path);

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<std::string> names_;
  std::map<std::string, const SafetensorsFile*, std::less<>> of_;
};

// For a directory without model.safetensors and its index: its other weights and the fix; "" if it
// has no known ones.
[[nodiscard]] std::string other_weights(const std::string& directory);

// Locates the weights of F32 safetensors files; `path` as for WeightFiles.
[[nodiscard]] StoredValues stored_weights(const std::string& path);

}  // namespace trireme
