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
  // A .safetensors file, an .index.json, or a directory that holds model.safetensors or its index,
  // or a run's weights.safetensors.
  explicit WeightFiles(const std::string& path);

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] bool contains(std::string_view name) const { return of_.contains(name); }
  // The file that holds a tensor; raises ExitCode::checkpoint for a name that none has.
  [[nodiscard]] const SafetensorsFile& file_of(std::string_view name) const;
  // F32, BF16, F16 or F64 as floats.
  [[nodiscard]] std::vector<float> read(std::string_view name) const;

 private:
  void add(const std::string& path);
  void add_index(const std::string& path);

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<std::string> names_;
  std::map<std::string, const SafetensorsFile*, std::less<>> of_;
};

// What a directory without model.safetensors and its index holds in their place, and what to do;
// empty: nothing that is known.
[[nodiscard]] std::string other_weights(const std::string& directory);

// Where the weights of F32 safetensors files lie; `path` as for WeightFiles.
[[nodiscard]] StoredValues stored_weights(const std::string& path);

}  // namespace trireme
