// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "runtime/checkpoint/names.h"
#include "runtime/checkpoint/verify.h"
#include "runtime/checkpoint/weight_files.h"

namespace trireme {

StoredValues stored_weights(const std::string& path, int share, int shares) {
  if (std::filesystem::exists(path + "/" + std::string(manifest_name))) {
    const FoundCheckpoint found = open_checkpoint(path);
    const auto damages = verify_checkpoint(path, found.manifest, share, shares);
    if (!damages.empty()) fail(ExitCode::checkpoint, "{}/{}", path, damages.front().describe());
    return stored_values(path, found.manifest, ValueKind::model);
  }
  const WeightFiles files(path);
  StoredValues values;
  for (const std::string& name : files.names()) {
    const SafetensorsFile& file = files.file_of(name);
    if (file.dtype(name) != DType::f32)
      fail(ExitCode::checkpoint,
           "{}: tensor '{}' is {}; `trireme checkpoint import` makes f32 of it", file.path(), name,
           name_of(file.dtype(name)));
    const auto same = std::ranges::find(values.files, file.path());
    const int index = static_cast<int>(same - values.files.begin());
    if (same == values.files.end()) values.files.push_back(file.path());
    const std::int64_t count = file.shape(name).count();
    values.tensors[name] = {file.shape(name),
                            {1, count},
                            {{.file = index, .offset = file.offset(name), .count = count}}};
  }
  return values;
}

}  // namespace trireme
