// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/files/weight_files.h"

#include <algorithm>
#include <filesystem>

#include "runtime/base/file.h"
#include "runtime/base/file_kind.h"
#include "runtime/checkpoint/files/json_fields.h"

namespace trireme {
namespace {

constexpr std::uint64_t index_limit = std::uint64_t{1} << 28;

template <typename T>
std::vector<float> as_floats(const SafetensorsFile& file, std::string_view name) {
  std::vector<T> stored(file.bytes(name) / sizeof(T));
  file.read(name, stored.data(), stored.size() * sizeof(T));
  std::vector<float> values(stored.size());
  std::ranges::transform(stored, values.begin(),
                         [](const T& value) { return static_cast<float>(value); });
  return values;
}

}  // namespace

std::string other_weights(const std::string& directory) {
  std::vector<std::string> shards, pickles;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors")) shards.push_back(name);
    if (name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth"))
      pickles.push_back(name);
  }
  if (!shards.empty())
    return fmt::format(
        "it holds {} of {} files, but no index of their tensors; get model.safetensors.index.json "
        "from the source of these files, or give one file by its name",
        *std::ranges::min_element(shards), shards.size());
  if (pickles.empty()) return {};
  const std::string& name = *std::ranges::min_element(pickles);
  return fmt::format("its {} is {}", name,
                     describe_file_kind(directory + "/" + name, ExitCode::checkpoint));
}

WeightFiles::WeightFiles(const std::string& path) : path_(path) {
  if (std::filesystem::is_directory(path)) {
    const std::string whole = path + "/model.safetensors", index = whole + ".index.json";
    if (std::filesystem::exists(whole)) {
      add(whole);
    } else if (std::filesystem::exists(index)) {
      add_index(index);
    } else {
      if (!std::filesystem::exists(path + "/weights.safetensors")) {
        const std::string found = other_weights(path);
        fail(ExitCode::checkpoint, "{}: there is no model.safetensors: {}", path,
             found.empty() ? "it holds no *.safetensors file" : found);
      }
      add(path + "/weights.safetensors");
    }
  } else if (path.ends_with(".json")) {
    add_index(path);
  } else {
    add(path);
  }
}

void WeightFiles::add(const std::string& path) {
  files_.push_back(std::make_unique<SafetensorsFile>(path));
  for (const std::string& name : files_.back()->names()) {
    if (!of_.emplace(name, files_.back().get()).second)
      fail(ExitCode::checkpoint, "{}: tensor '{}' is in another file of the index too", path, name);
    names_.push_back(name);
  }
}

void WeightFiles::add_index(const std::string& path) {
  const json_fields::json index =
      json_fields::parse(read_whole_file(path, index_limit, ExitCode::checkpoint), path);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    json_fields::refuse(path, "weight_map", "is missing");
  std::vector<std::string> files;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string()) json_fields::refuse(path, name, "does not name a file");
    files.push_back(file.get<std::string>());
    if (files.back().empty() || files.back().find('/') != std::string::npos)
      json_fields::refuse(path, name, "names a file outside the index's directory");
  }
  std::ranges::sort(files);
  const auto same = std::ranges::unique(files);
  files.erase(same.begin(), same.end());
  for (const std::string& file : files)
    add(parent_directory(path) + "/" + file);
  for (const auto& [name, file] : index["weight_map"].items()) {
    const auto found = of_.find(name);
    if (found == of_.end() ||
        found->second->path() != parent_directory(path) + "/" + file.get<std::string>())
      json_fields::refuse(path, name, "is not in the file that the index names");
  }
}

const SafetensorsFile& WeightFiles::file_of(std::string_view name) const {
  const auto found = of_.find(name);
  if (found == of_.end()) fail(ExitCode::checkpoint, "{}: has no tensor '{}'", path_, name);
  return *found->second;
}

std::vector<float> WeightFiles::read(std::string_view name) const {
  const SafetensorsFile& file = file_of(name);
  switch (file.dtype(name)) {
    case DType::f32:
      return as_floats<float>(file, name);
    case DType::f64:
      return as_floats<double>(file, name);
    case DType::bf16:
      return as_floats<bf16>(file, name);
    case DType::f16:
      return as_floats<f16>(file, name);
    default:
      fail(ExitCode::checkpoint, "{}: tensor '{}' is {}; weights are F32, BF16, F16 or F64",
           file.path(), name, name_of(file.dtype(name)));
  }
}

StoredValues stored_weights(const std::string& path) {
  const WeightFiles files(path);
  StoredValues values;
  for (const std::string& name : files.names()) {
    const SafetensorsFile& file = files.file_of(name);
    if (file.dtype(name) != DType::f32)
      fail(ExitCode::checkpoint,
           "{}: tensor '{}' is {}; `trireme checkpoint import` converts it to f32", file.path(),
           name, name_of(file.dtype(name)));
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
