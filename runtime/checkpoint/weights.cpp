// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/weights.h"

#include <algorithm>
#include <vector>

#include "runtime/checkpoint/safetensors.h"

namespace trireme {
namespace {

constexpr std::string_view hint = "use the weights and the config.yaml of the same run directory";

void check_entry(const SafetensorsFile& file, const ParamSpec& spec) {
  if (!file.contains(spec.name)) {
    fail(ExitCode::checkpoint, "{}: has no tensor {} {}; {}", file.path(), spec.name,
         spec.shape.to_string(), hint);
  }
  if (file.shape(spec.name) != spec.shape || file.dtype(spec.name) != DType::f32) {
    fail(ExitCode::checkpoint, "{}: tensor {} is {} {}, the model needs f32 {}; {}", file.path(),
         spec.name, name_of(file.dtype(spec.name)), file.shape(spec.name).to_string(),
         spec.shape.to_string(), hint);
  }
}

}  // namespace

void save_weights(const std::string& path, std::span<const WholeTensor> tensors,
                  const std::map<std::string, std::string>& metadata) {
  std::vector<NamedTensor> named;
  for (const WholeTensor& tensor : tensors) {
    // Only read from: a view has no const form.
    auto* const data = reinterpret_cast<std::byte*>(const_cast<float*>(tensor.values.data()));
    named.push_back({tensor.name, {data, DType::f32, tensor.shape}});
  }
  write_safetensors(path, named, metadata);
}

void load_weights(const std::string& path, ParamStore& params, Stream& stream) {
  const SafetensorsFile file(path);
  const auto specs = params.specs();
  for (const std::string& name : file.names()) {
    const auto same = [&](const ParamSpec& spec) { return spec.name == name; };
    if (std::none_of(specs.begin(), specs.end(), same)) {
      fail(ExitCode::checkpoint, "{}: holds tensor {}, which the model does not have; {}", path,
           name, hint);
    }
  }
  stream.synchronize();
  for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
    const ParamSpec& spec = specs[static_cast<std::size_t>(i)];
    check_entry(file, spec);
    const Tensor values = params.master({i});
    file.read(spec.name, values.data, values.bytes());
  }
  params.refresh_compute(stream);
}

}  // namespace trireme
