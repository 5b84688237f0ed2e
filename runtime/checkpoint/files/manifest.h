// SPDX-License-Identifier: Apache-2.0
// manifest.json: a checkpoint's contents, the position of each element and the checksums. The file
// is untrusted, so every number is checked before use.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/process_mesh.h"
#include "runtime/nn/param.h"

namespace trireme {

// The values stored for every tensor, in file order. Only weights have moments.
enum class ValueKind : std::uint8_t { model, first, second, average };
inline constexpr std::array value_kinds = {ValueKind::model, ValueKind::first, ValueKind::second,
                                           ValueKind::average};
// Group names in the HDF5 files: "model", "optimizer/first", ...
[[nodiscard]] std::string_view name_of(ValueKind kind);
[[nodiscard]] constexpr bool is_moment(ValueKind kind) {
  return kind == ValueKind::first || kind == ValueKind::second;
}
// "weight", "statistic", "frozen".
[[nodiscard]] std::string_view name_of(ParamKind kind);
[[nodiscard]] constexpr bool has_value(ParamKind param, ValueKind kind) {
  return param == ParamKind::weight || !is_moment(kind);
}

// How a whole row-major tensor is distributed over blocks: cyclically in runs of `run` adjacent
// elements, the first cycle with runs `lead` times as long. One block: run is the whole count.
struct Blocking {
  std::int64_t blocks = 1;
  std::int64_t run = 1;
  std::int64_t lead = 1;

  // Index in the whole tensor of element i of a block.
  [[nodiscard]] constexpr std::int64_t logical(std::int64_t block, std::int64_t i) const {
    if (i < lead * run) return block * lead * run + i;
    const std::int64_t turn = i / run;  // counts the first cycle `lead` times
    return (turn * blocks + block) * run + i % run;
  }
  // The number of elements from i on that are also contiguous in the whole tensor.
  [[nodiscard]] constexpr std::int64_t neighbours(std::int64_t i) const {
    return i < lead * run ? lead * run - i : run - i % run;
  }
  struct Place {
    std::int64_t block = 0, i = 0;
  };
  // The inverse of `logical`.
  [[nodiscard]] constexpr Place place(std::int64_t logical) const {
    if (logical < blocks * lead * run) return {logical / (lead * run), logical % (lead * run)};
    const std::int64_t turn = logical / run;
    return {turn % blocks, turn / blocks * run + logical % run};
  }
  friend constexpr bool operator==(const Blocking&, const Blocking&) = default;
};

struct ManifestTensor {
  std::string name;
  Shape shape{};
  ParamKind kind = ParamKind::weight;
  Blocking blocking{};
  [[nodiscard]] std::int64_t block_count() const { return shape.count() / blocking.blocks; }
};

// Elements [first, first + count) of one block of a tensor. Each dataset of a file holds its
// slices' values contiguously: weights, then statistics, then frozen weights.
struct ManifestSlice {
  std::int64_t tensor = 0;  // index into Manifest::tensors
  std::int64_t block = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::array<std::uint64_t, value_kinds.size()> checksums{};  // XXH3-64, per stored kind
};

struct ManifestFile {
  std::string name;         // "rank_00000.h5"
  std::uint64_t bytes = 0;  // of the whole file
  std::uint64_t header_bytes = 0;
  std::uint64_t header_checksum = 0;                        // of the first header_bytes
  std::array<std::uint64_t, value_kinds.size()> offsets{};  // byte of the first value of each kind
  std::vector<ManifestSlice> slices{};
};

struct Manifest {
  std::int64_t step = 0;
  MeshShape mesh{};  // the writing job's
  int zero = 0;
  std::vector<ValueKind> kinds;  // ascending; always includes the model
  std::vector<ManifestTensor> tensors;
  std::vector<ManifestFile> files;
  std::uint64_t view_bytes = 0;  // of checkpoint.h5
  std::uint64_t view_checksum = 0;
  std::uint64_t text_checksum = 0;  // XXH3-64 of the file's text, set by read_manifest()
  std::string state = "{}";         // the trainer's state, a JSON object
  // Small device state that is equal on all ranks (a loss scale), as hexadecimal bytes.
  std::vector<std::pair<std::string, std::string>> scalars;

  [[nodiscard]] bool has(ValueKind kind) const;
  [[nodiscard]] std::uint64_t value_bytes() const;
};

// One file's entry as JSON, which its rank sends to rank 0.
[[nodiscard]] std::string file_entry_text(const ManifestFile& file,
                                          const std::vector<ValueKind>& kinds,
                                          const std::vector<ManifestTensor>& tensors);
// The whole file's text. `files` are entries from file_entry_text(); Manifest::files is not used.
[[nodiscard]] std::string manifest_text(const Manifest& manifest,
                                        const std::vector<std::string>& files);

// The file's last field: the XXH3-64 of the text before it.
[[nodiscard]] std::string manifest_tail(std::string_view body);

// Both raise ExitCode::checkpoint naming `path` and the problem. The first also compares the
// checksum. Both parse strictly: no unknown or duplicate keys, sizes inside the files, every
// element of every tensor in exactly one slice.
[[nodiscard]] Manifest read_manifest(const std::string& path);
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& path);

}  // namespace trireme
