// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <tuple>

#include "runtime/base/checksum.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/files/json_fields.h"
#include "runtime/checkpoint/files/manifest.h"
#include "runtime/checkpoint/files/names.h"

namespace trireme {
namespace {

using json_fields::json;
using json_fields::number_of;
using json_fields::Object;
using json_fields::refuse;

// Far above any model; times the bytes of an element it is far from overflow.
constexpr std::int64_t element_limit = std::int64_t{1} << 56;
constexpr std::int64_t byte_limit = std::int64_t{1} << 60;
constexpr std::int64_t rank_limit = 99'999;  // limited by the digits in a file name
constexpr std::uint64_t text_limit = std::uint64_t{1} << 31;

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  Manifest read(std::string_view text) {
    const json document = json_fields::parse(text, path_);
    const Object root(document, path_, "manifest",
                      {"format", "version", "step", "layout", "state", "scalars", "values",
                       "tensors", "files", "view", "xxh3"});
    if (root.text("format") != "trireme checkpoint")
      root.refuse("format", "is not \"trireme checkpoint\"");
    static_cast<void>(root.number("version", 1, 1));
    it_.step = root.number("step", 0, element_limit);
    read_layout(root.at("layout"));
    if (!root.at("state").is_object()) root.refuse("state", "is not an object");
    it_.state = root.at("state").dump();
    read_scalars(root.at("scalars"));
    read_kinds(root.array("values"));
    for (const json& tensor : root.array("tensors"))
      read_tensor(tensor);
    for (const json& file : root.array("files"))
      read_file(file);
    const Object view(root.at("view"), path_, "view", {"bytes", "xxh3"});
    it_.view_bytes = static_cast<std::uint64_t>(view.number("bytes", 1, byte_limit));
    it_.view_checksum = view.hash("xxh3");
    check_files();
    check_cover();
    return std::move(it_);
  }

 private:
  void read_layout(const json& value) {
    const Object layout(value, path_, "layout", {"pipeline", "data", "tensor", "zero"});
    const auto ranks = [&](std::string_view key) {
      return static_cast<int>(layout.number(key, 1, rank_limit));
    };
    it_.mesh = {ranks("pipeline"), ranks("data"), ranks("tensor")};
    const std::int64_t all = std::int64_t{it_.mesh.pipeline} * it_.mesh.data * it_.mesh.tensor;
    if (all > rank_limit) refuse(path_, "layout", fmt::format("has {} ranks, too many", all));
    it_.zero = static_cast<int>(layout.number("zero", 0, 3));
  }

  void read_scalars(const json& value) {
    if (!value.is_object()) refuse(path_, "scalars", "is not an object");
    for (const auto& [name, bytes] : value.items()) {
      const bool good = bytes.is_string() && bytes.get_ref<const std::string&>().size() % 2 == 0 &&
                        bytes.get_ref<const std::string&>().find_first_not_of("0123456789abcdef") ==
                            std::string::npos;
      if (!good) refuse(path_, "scalars." + name, "is not hexadecimal bytes");
      it_.scalars.emplace_back(name, bytes.get<std::string>());
    }
  }

  void read_kinds(const json& list) {
    for (const json& name : list) {
      const auto kind = std::ranges::find_if(
          value_kinds, [&](ValueKind kind) { return name.is_string() && name == name_of(kind); });
      if (kind == value_kinds.end()) refuse(path_, "values", "has an unknown kind of value");
      if (!it_.kinds.empty() && it_.kinds.back() >= *kind)
        refuse(path_, "values", "is not in order");
      it_.kinds.push_back(*kind);
    }
    if (!it_.has(ValueKind::model)) refuse(path_, "values", "lacks the model");
  }

  void read_tensor(const json& value) {
    const std::string where = fmt::format("tensor {}", it_.tensors.size());
    const Object tensor(value, path_, where, {"name", "shape", "kind", "blocks", "run"}, {"lead"});
    ManifestTensor entry;
    entry.name = tensor.text("name");
    // A name becomes a link in HDF5 files and appears in messages.
    const bool plain = !entry.name.empty() && entry.name != "." && entry.name != ".." &&
                       std::ranges::none_of(entry.name, [](char letter) {
                         return letter == '/' || static_cast<unsigned char>(letter) < ' ';
                       });
    if (!plain) tensor.refuse("name", "is not a plain name");
    if (!names_.insert(entry.name).second) tensor.refuse("name", "appears twice");
    const json& extents = tensor.array("shape");
    if (extents.size() > Shape::max_rank) tensor.refuse("shape", "has too many axes");
    std::vector<std::int64_t> shape;
    std::int64_t count = 1;
    for (const json& extent : extents) {
      shape.push_back(number_of(extent, 1, element_limit / count, path_, where + ".shape"));
      count *= shape.back();
    }
    entry.shape = Shape(shape);
    const std::string kind = tensor.text("kind");
    constexpr std::array kinds = {ParamKind::weight, ParamKind::statistic, ParamKind::frozen};
    const auto known =
        std::ranges::find(kinds, kind, [](ParamKind one) { return std::string(name_of(one)); });
    if (known == kinds.end()) tensor.refuse("kind", "is not one of weight, statistic, frozen");
    entry.kind = *known;
    entry.blocking = {tensor.number("blocks", 1, count), tensor.number("run", 1, count)};
    if (value.contains("lead")) entry.blocking.lead = tensor.number("lead", 1, count);
    if (count % entry.blocking.blocks != 0 || entry.block_count() % entry.blocking.run != 0 ||
        entry.blocking.lead > entry.block_count() / entry.blocking.run)
      tensor.refuse("blocks", "does not divide the tensor");
    it_.tensors.push_back(std::move(entry));
  }

  void read_file(const json& value) {
    const auto index = static_cast<int>(it_.files.size());
    const Object file(value, path_, fmt::format("file {}", index),
                      {"name", "bytes", "header_bytes", "header_xxh3", "offsets", "slices"});
    ManifestFile entry;
    entry.name = file.text("name");
    if (entry.name != rank_file_name(index)) file.refuse("name", "is not " + rank_file_name(index));
    entry.bytes = static_cast<std::uint64_t>(file.number("bytes", 1, byte_limit));
    entry.header_bytes = static_cast<std::uint64_t>(
        file.number("header_bytes", 1, static_cast<std::int64_t>(entry.bytes)));
    entry.header_checksum = file.hash("header_xxh3");
    if (!file.at("offsets").is_object() || file.at("offsets").size() != it_.kinds.size())
      file.refuse("offsets", "does not list the values");
    for (const ValueKind kind : it_.kinds) {
      const std::string name(name_of(kind));
      if (!file.at("offsets").contains(name)) file.refuse("offsets", "lacks " + name);
      entry.offsets[static_cast<std::size_t>(kind)] = static_cast<std::uint64_t>(
          number_of(file.at("offsets")[name], 0, byte_limit, path_, "offsets." + name));
    }
    for (const json& slice : file.array("slices"))
      read_slice(slice, entry, fmt::format("{} slice {}", entry.name, entry.slices.size()));
    it_.files.push_back(std::move(entry));
  }

  void read_slice(const json& row, ManifestFile& file, const std::string& where) {
    constexpr std::size_t numbers = 4;
    if (!row.is_array() || row.size() < numbers) refuse(path_, where, "does not describe a slice");
    ManifestSlice slice;
    const auto last = static_cast<std::int64_t>(it_.tensors.size()) - 1;
    slice.tensor = number_of(row[0], 0, last, path_, where);
    const ManifestTensor& tensor = it_.tensors[static_cast<std::size_t>(slice.tensor)];
    slice.block = number_of(row[1], 0, tensor.blocking.blocks - 1, path_, where);
    slice.first = number_of(row[2], 0, tensor.block_count() - 1, path_, where);
    slice.count = number_of(row[3], 1, tensor.block_count() - slice.first, path_, where);
    std::size_t next = numbers;
    for (const ValueKind kind : it_.kinds) {
      if (!has_value(tensor.kind, kind)) continue;
      if (next >= row.size()) refuse(path_, where, "lacks a checksum");
      slice.checksums[static_cast<std::size_t>(kind)] =
          json_fields::hash_of(row[next++], path_, where);
    }
    if (next != row.size()) refuse(path_, where, "has too many fields");
    const auto kind_of = [&](const ManifestSlice& other) {
      return it_.tensors[static_cast<std::size_t>(other.tensor)].kind;
    };
    // This order gives a slice's values the same place in every dataset.
    if (!file.slices.empty() && kind_of(file.slices.back()) > tensor.kind)
      refuse(path_, where, "is a weight listed after statistics or frozen weights");
    file.slices.push_back(slice);
  }

  // Checks that every dataset is inside its file and overlaps neither the header nor another one.
  void check_files() const {
    if (static_cast<int>(it_.files.size()) != it_.mesh.size())
      refuse(path_, "files",
             fmt::format("are of {} ranks, not {}", it_.files.size(), it_.mesh.size()));
    for (const ManifestFile& file : it_.files) {
      std::vector<std::pair<std::uint64_t, std::uint64_t>> regions{{0, file.header_bytes}};
      for (const ValueKind kind : it_.kinds) {
        std::uint64_t elements = 0;
        for (const ManifestSlice& slice : file.slices) {
          const ManifestTensor& tensor = it_.tensors[static_cast<std::size_t>(slice.tensor)];
          elements += has_value(tensor.kind, kind) ? static_cast<std::uint64_t>(slice.count) : 0;
          if (elements > file.bytes) break;
        }
        const std::uint64_t first = file.offsets[static_cast<std::size_t>(kind)];
        if (elements > file.bytes / sizeof(float) || first > file.bytes ||
            elements * sizeof(float) > file.bytes - first)
          refuse(path_, file.name, fmt::format("{} reaches beyond its end", name_of(kind)));
        if (elements > 0) regions.emplace_back(first, first + elements * sizeof(float));
      }
      std::ranges::sort(regions);
      for (std::size_t i = 1; i < regions.size(); ++i) {
        if (regions[i].first < regions[i - 1].second)
          refuse(path_, file.name, "contains values that overlap");
      }
    }
  }

  // Checks that every element of every tensor is in exactly one slice.
  void check_cover() const {
    std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>> all;
    for (const ManifestFile& file : it_.files) {
      for (const ManifestSlice& slice : file.slices)
        all.emplace_back(slice.tensor, slice.block, slice.first, slice.count);
    }
    std::ranges::sort(all);
    auto next = all.begin();
    for (std::size_t t = 0; t < it_.tensors.size(); ++t) {
      const ManifestTensor& tensor = it_.tensors[t];
      for (std::int64_t block = 0; block < tensor.blocking.blocks; ++block) {
        std::int64_t covered = 0;
        while (covered < tensor.block_count()) {
          const std::tuple wanted(static_cast<std::int64_t>(t), block, covered);
          if (next == all.end() ||
              wanted != std::tuple(std::get<0>(*next), std::get<1>(*next), std::get<2>(*next)))
            refuse(
                path_, "tensor " + tensor.name,
                fmt::format("element {} of block {} is not in exactly one slice", covered, block));
          covered += std::get<3>(*next++);
        }
      }
    }
    if (next != all.end()) refuse(path_, "slices", "overlap");
  }

  const std::string& path_;
  Manifest it_;
  std::set<std::string> names_;
};

}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& path) {
  return Reader(path).read(text);
}

Manifest read_manifest(const std::string& path) {
  const std::string text = read_whole_file(path, text_limit, ExitCode::checkpoint);
  const std::size_t tail = text.rfind("\"xxh3\": \"");
  const std::string_view body = std::string_view(text).substr(0, std::min(tail, text.size()));
  if (tail == std::string::npos || text.substr(tail) != manifest_tail(body))
    refuse(path, "xxh3", "does not match the text: it was changed or cut");
  Manifest manifest = parse_manifest(text, path);
  manifest.text_checksum = checksum_of(text);
  return manifest;
}

}  // namespace trireme
