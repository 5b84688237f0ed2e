// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/files/manifest.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/base/checksum.h"
#include "runtime/base/json.h"
#include "runtime/checkpoint/files/json_fields.h"

namespace trireme {

using json = nlohmann::json;

namespace {

std::string hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

json shape_json(const Shape& shape) {
  return json(std::vector<std::int64_t>(shape.extents().begin(), shape.extents().end()));
}

json tensor_json(const ManifestTensor& tensor) {
  json object{{"name", tensor.name},
              {"shape", shape_json(tensor.shape)},
              {"kind", name_of(tensor.kind)},
              {"blocks", tensor.blocking.blocks},
              {"run", tensor.blocking.run}};
  if (tensor.blocking.lead > 1) object["lead"] = tensor.blocking.lead;
  return object;
}

}  // namespace

std::string_view name_of(ParamKind kind) {
  constexpr std::array<std::string_view, 3> names = {"weight", "statistic", "frozen"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(ValueKind kind) {
  constexpr std::array<std::string_view, value_kinds.size()> names = {
      "model", "optimizer/first", "optimizer/second", "average"};
  return names[static_cast<std::size_t>(kind)];
}

bool Manifest::has(ValueKind kind) const {
  return std::ranges::find(kinds, kind) != kinds.end();
}

std::uint64_t Manifest::value_bytes() const {
  std::uint64_t elements = 0;
  for (const ManifestTensor& tensor : tensors) {
    for (const ValueKind kind : kinds)
      elements +=
          has_value(tensor.kind, kind) ? static_cast<std::uint64_t>(tensor.shape.count()) : 0;
  }
  return elements * sizeof(float);
}

std::string file_entry_text(const ManifestFile& file, const std::vector<ValueKind>& kinds,
                            const std::vector<ManifestTensor>& tensors) {
  json offsets = json::object();
  for (const ValueKind kind : kinds)
    offsets[std::string(name_of(kind))] = file.offsets[static_cast<std::size_t>(kind)];
  json slices = json::array();
  for (const ManifestSlice& slice : file.slices) {
    json row = {slice.tensor, slice.block, slice.first, slice.count};
    for (const ValueKind kind : kinds) {
      if (has_value(tensors[static_cast<std::size_t>(slice.tensor)].kind, kind))
        row.push_back(hex(slice.checksums[static_cast<std::size_t>(kind)]));
    }
    slices.push_back(std::move(row));
  }
  return json{{"name", file.name},
              {"bytes", file.bytes},
              {"header_bytes", file.header_bytes},
              {"header_xxh3", hex(file.header_checksum)},
              {"offsets", offsets},
              {"slices", slices}}
      .dump();
}

std::string manifest_text(const Manifest& manifest, const std::vector<std::string>& files) {
  std::string text = "{\n\"format\": \"trireme checkpoint\",\n\"version\": 1,\n";
  const auto add = [&](std::string_view key, const std::string& value) {
    text += fmt::format("\"{}\": {},\n", key, value);
  };
  // One element per line, for people who look for a fault.
  const auto lines = [](const std::vector<std::string>& items) {
    return fmt::format("[\n{}\n]", fmt::join(items, ",\n"));
  };
  std::vector<std::string> tensors, kinds;
  for (const ManifestTensor& tensor : manifest.tensors)
    tensors.push_back(tensor_json(tensor).dump());
  for (const ValueKind kind : manifest.kinds)
    kinds.push_back(fmt::format("\"{}\"", name_of(kind)));
  json scalars = json::object();
  for (const auto& [name, bytes] : manifest.scalars)
    scalars[name] = bytes;
  add("step", fmt::format("{}", manifest.step));
  add("layout", json{{"pipeline", manifest.mesh.pipeline},
                     {"data", manifest.mesh.data},
                     {"tensor", manifest.mesh.tensor},
                     {"zero", manifest.zero}}
                    .dump());
  add("state", parse_json(manifest.state).dump());
  add("scalars", scalars.dump());
  add("values", fmt::format("[{}]", fmt::join(kinds, ", ")));
  add("tensors", lines(tensors));
  add("files", lines(files));
  add("view", json{{"bytes", manifest.view_bytes}, {"xxh3", hex(manifest.view_checksum)}}.dump());
  return text + manifest_tail(text);
}

std::string manifest_tail(std::string_view body) {
  return fmt::format("\"xxh3\": \"{}\"\n}}\n", hex(checksum_of(body)));
}

}  // namespace trireme
