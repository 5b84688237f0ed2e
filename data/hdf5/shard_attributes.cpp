// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <limits>

#include "data/hdf5/shard_parts.h"

namespace trireme::hdf5 {
namespace {

// Scalar attributes of the root group; refuses any type but the requested one.
class AttributeReader {
 public:
  using Kind = ShardAttribute::Kind;
  AttributeReader(const std::string& path, const ShardFacts& facts) : path_(path), facts_(facts) {}

  [[nodiscard]] std::uint64_t integer(const char* name) const {
    return find(name, Kind::integer, "an integer").number;
  }
  // Variable-length text is stored in a heap without checksums.
  [[nodiscard]] std::string text(const char* name) const {
    return find(name, Kind::text, "fixed-length text of at most 16 MiB").text;
  }

 private:
  [[nodiscard]] const ShardAttribute& find(const char* name, Kind kind,
                                           std::string_view wanted) const {
    const ShardAttribute* const found = find_named(facts_.attributes, name);
    if (found == nullptr)
      refuse(path_, fmt::format("lacks the attribute '{}' and so is not a Trireme shard", name));
    if (found->kind == kind) return *found;
    refuse(path_, fmt::format("attribute '{}' is not {}", name,
                              found->kind == Kind::not_scalar ? "a scalar" : wanted));
  }

  const std::string& path_;
  const ShardFacts& facts_;
};

void read_token_fields(const std::string& path, const AttributeReader& read, ShardHeader& header) {
  header.documents = read.integer("documents");
  header.continues = read.integer("continues") != 0;
  header.tokenizer = read.text("tokenizer");
  header.vocabulary = read.integer("vocabulary");
  if (header.dtype != DType::u16 && header.dtype != DType::u32) {
    refuse(path, "attribute 'dtype' must be uint16 or uint32 for tokens");
  }
  if (header.documents == 0 || header.documents > header.count) {
    refuse(path, fmt::format("{} documents cannot hold {} tokens", header.documents, header.count));
  }
  const std::uint64_t limit =
      header.dtype == DType::u16 ? 65536 : std::numeric_limits<std::int32_t>::max();
  if (header.vocabulary == 0 || header.vocabulary > limit) {
    refuse(path, fmt::format("vocabulary {} is not in 1..{}", header.vocabulary, limit));
  }
}

void read_text_targets(const std::string& path, const AttributeReader& read, ShardHeader& header) {
  const std::string targets = read.text("targets");
  for (const auto kind :
       {TextTargets::label, TextTargets::values, TextTargets::labels, TextTargets::token_classes})
    if (targets == name_of(kind)) header.targets = kind;
  header.target_width = read.integer("target_width");
  header.longest = read.integer("longest");
  header.classes = split_classes(read.text("classes"));
  constexpr std::uint64_t widest = 1 << 20;
  const bool one =
      header.targets == TextTargets::label || header.targets == TextTargets::token_classes;
  if (header.targets == TextTargets::none || header.target_width == 0 ||
      header.target_width > widest || (one && header.target_width != 1) || header.continues)
    refuse(path, fmt::format("has targets '{}' of {} numbers, which no text here has", targets,
                             header.target_width));
}

void read_image_fields(const std::string& path, const AttributeReader& read, ShardHeader& header) {
  header.height = read.integer("height");
  header.width = read.integer("width");
  header.channels = read.integer("channels");
  header.classes = split_classes(read.text("classes"));
  if (header.dtype != DType::u8) refuse(path, "attribute 'dtype' must be uint8 for images");
  constexpr std::uint64_t longest_side = 1 << 20;
  if (header.height == 0 || header.width == 0 || header.height > longest_side ||
      header.width > longest_side || (header.channels != 1 && header.channels != 3)) {
    refuse(path, fmt::format("image size {} x {} x {} (height x width x channels) is not allowed",
                             header.height, header.width, header.channels));
  }
}

void write_integer(hid_t file, const std::string& name, std::uint64_t value,
                   const std::string& path) {
  const Handle space(checked(H5Screate(H5S_SCALAR), "H5Screate", path, ExitCode::internal),
                     H5Sclose);
  const Handle attribute(
      checked(H5Acreate2(file, name.c_str(), H5T_NATIVE_UINT64, space, H5P_DEFAULT, H5P_DEFAULT),
              "H5Acreate2", path, ExitCode::internal),
      H5Aclose);
  checked(H5Awrite(attribute, H5T_NATIVE_UINT64, &value), "H5Awrite", path, ExitCode::internal);
}

void write_text(hid_t file, const std::string& name, const std::string& value,
                const std::string& path) {
  const Handle space(checked(H5Screate(H5S_SCALAR), "H5Screate", path, ExitCode::internal),
                     H5Sclose);
  const Handle type(checked(H5Tcopy(H5T_C_S1), "H5Tcopy", path, ExitCode::internal), H5Tclose);
  checked(H5Tset_size(type, std::max<std::size_t>(value.size(), 1)), "H5Tset_size", path,
          ExitCode::internal);
  checked(H5Tset_strpad(type, H5T_STR_NULLPAD), "H5Tset_strpad", path, ExitCode::internal);
  checked(H5Tset_cset(type, H5T_CSET_UTF8), "H5Tset_cset", path, ExitCode::internal);
  const Handle attribute(
      checked(H5Acreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), "H5Acreate2",
              path, ExitCode::internal),
      H5Aclose);
  checked(H5Awrite(attribute, type, value.c_str()), "H5Awrite", path, ExitCode::internal);
}

}  // namespace

void refuse(const std::string& path, std::string_view what) {
  refuse(Error(ExitCode::data, fmt::format("{}: {}", path, what)));
}

void refuse(const Error& error) {
  if (error.code() != ExitCode::data) throw error;
  fail(ExitCode::data,
       "{}; make shards with `trireme data pack-text` or `trireme data pack-images`", error.what());
}

ShardHeader read_header(const std::string& path, const ShardFacts& facts, std::uint64_t& checksum) {
  const AttributeReader read(path, facts);
  if (const std::string format = read.text("format"); format != "trireme-shard") {
    refuse(path, fmt::format("attribute 'format' is '{}', not 'trireme-shard'", format));
  }
  const std::uint64_t version = read.integer("version");
  if (version < shard_version || version > labelled_shard_version) {
    refuse(path, fmt::format("has format version {}; this program reads versions {} to {}", version,
                             shard_version, labelled_shard_version));
  }
  ShardHeader header;
  const std::string kind = read.text("kind");
  if (kind != "tokens" && kind != "images")
    refuse(path, fmt::format("kind '{}' is not tokens or images", kind));
  header.kind = kind == "tokens" ? DataKind::tokens : DataKind::images;
  header.dtype = dtype_from_stored_name(read.text("dtype"));
  header.shard_index = read.integer("shard_index");
  header.shard_count = read.integer("shard_count");
  header.count = read.integer("count");
  if (version == masked_shard_version) header.counted = read.integer("counted");
  header.payload_checksum = read.integer("payload_xxh3");
  if (header.count == 0) refuse(path, fmt::format("holds no {}", kind));
  if (header.counted && (header.kind != DataKind::tokens || *header.counted > header.count))
    refuse(path,
           fmt::format("says that {} of {} {} are targets", *header.counted, header.count, kind));
  if (header.shard_index >= header.shard_count) {
    refuse(path, fmt::format("says it is shard {} of {}", header.shard_index, header.shard_count));
  }
  header.kind == DataKind::tokens ? read_token_fields(path, read, header)
                                  : read_image_fields(path, read, header);
  if (version == labelled_shard_version) read_text_targets(path, read, header);
  checksum = read.integer("header_xxh3");
  if (const std::uint64_t computed = header_checksum(header); computed != checksum) {
    refuse(
        path,
        fmt::format(
            "its attributes do not match their checksum header_xxh3 ({:016x}, computed {:016x}): "
            "the file was changed or damaged",
            checksum, computed));
  }
  return header;
}

bool read_block_attributes(const ShardFacts& facts, Shard& shard) {
  const bool has[] = {find_named(facts.datasets, "block_checksums") != nullptr,
                      find_named(facts.attributes, "block_bytes") != nullptr,
                      find_named(facts.attributes, "block_checksums_xxh3") != nullptr};
  if (!has[0] && !has[1] && !has[2]) return false;
  if (!has[0] || !has[1] || !has[2]) {
    refuse(shard.path,
           "lacks some of /block_checksums and the attributes block_bytes and "
           "block_checksums_xxh3: the file was changed or damaged");
  }
  const AttributeReader read(shard.path, facts);
  shard.block_bytes = read.integer("block_bytes");
  shard.table_checksum = read.integer("block_checksums_xxh3");
  const bool tokens = shard.header.kind == DataKind::tokens;
  const bool good = tokens ? std::has_single_bit(shard.block_bytes) &&
                                 shard.block_bytes >= shortest_cut_block &&
                                 shard.block_bytes <= longest_cut_block
                           : shard.block_bytes == shard.element_bytes();
  if (!good) {
    refuse(shard.path,
           fmt::format("block_bytes {} is not {}", shard.block_bytes,
                       tokens ? fmt::format("a power of two from {} to {}", shortest_cut_block,
                                            longest_cut_block)
                              : fmt::format("{}, the bytes of one image", shard.element_bytes())));
  }
  return true;
}

void write_block_attributes(const std::string& path, hid_t file, std::uint64_t block_bytes,
                            std::uint64_t table_checksum) {
  write_integer(file, "block_bytes", block_bytes, path);
  write_integer(file, "block_checksums_xxh3", table_checksum, path);
}

void write_header(const std::string& path, hid_t file, const ShardHeader& header) {
  for (const auto& [name, value] : attributes_of(header)) {
    if (const auto* const number = std::get_if<std::uint64_t>(&value)) {
      write_integer(file, name, *number, path);
    } else {
      write_text(file, name, std::get<std::string>(value), path);
    }
  }
  write_integer(file, "header_xxh3", header_checksum(header), path);
}

}  // namespace trireme::hdf5
