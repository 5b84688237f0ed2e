// SPDX-License-Identifier: Apache-2.0
#include "data/verify.h"

#include <algorithm>

#include "data/image_dataset.h"
#include "data/shard_set.h"
#include "data/token_dataset.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::size_t block_bytes = std::size_t{4} << 20;

// Streams [offset, offset + bytes) through the checksum and `check(first element, elements)`.
template <typename Element, typename Check>
void scan(const InputFile& file, std::uint64_t offset, std::uint64_t bytes, Checksum& checksum,
          const ByteProgress& progress, Check&& check) {
  std::vector<Element> block(block_bytes / sizeof(Element));
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t size = std::min<std::uint64_t>(block_bytes, bytes - done);
    const auto part = std::span(block).first(size / sizeof(Element));
    file.read(offset + done, std::as_writable_bytes(part));
    checksum.update(std::as_bytes(part));
    check(done / sizeof(Element), std::span<const Element>(part));
    done += size;
    if (progress) progress(size);
  }
}

template <typename Token>
void scan_tokens(const Shard& shard, const InputFile& file, Checksum& checksum,
                 const ByteProgress& progress) {
  scan<Token>(file, shard.data_offset, shard.data_bytes(), checksum, progress,
              [&](std::uint64_t first, std::span<const Token> ids) {
                if (largest(ids) >= shard.header.vocabulary) refuse_ids(shard, first, ids);
              });
}

void scan_offsets(const Shard& shard, const InputFile& file, Checksum& checksum,
                  const ByteProgress& progress) {
  std::uint64_t last = 0;
  scan<std::uint64_t>(file, shard.index_offset, shard.index_bytes(), checksum, progress,
                      [&](std::uint64_t first, std::span<const std::uint64_t> offsets) {
                        for (std::size_t i = 0; i < offsets.size(); ++i) {
                          const bool good = first + i == 0 ? offsets[i] == 0 : offsets[i] > last;
                          if (!good) {
                            fail(ExitCode::data,
                                 "{}: document offset {} is {}, after {}; re-pack the data set",
                                 shard.path, first + i, offsets[i], last);
                          }
                          last = offsets[i];
                        }
                      });
  if (last != shard.header.count) {
    fail(ExitCode::data, "{}: the last document ends at {}, the tokens at {}; re-pack the data set",
         shard.path, last, shard.header.count);
  }
}

}  // namespace

void verify_payload(const Shard& shard, const ByteProgress& progress) {
  const InputFile file(shard.path);
  Checksum checksum;
  // A damaged byte shows as a wrong checksum, or, named more exactly, as an id or label out of
  // range.
  if (shard.header.kind == DataKind::tokens) {
    shard.header.dtype == DType::u16 ? scan_tokens<std::uint16_t>(shard, file, checksum, progress)
                                     : scan_tokens<std::uint32_t>(shard, file, checksum, progress);
    scan_offsets(shard, file, checksum, progress);
  } else {
    scan<std::byte>(file, shard.data_offset, shard.data_bytes(), checksum, progress,
                    [](auto, auto) {});
    scan<std::int32_t>(
        file, shard.index_offset, shard.index_bytes(), checksum, progress,
        [&](std::uint64_t first, auto labels) { check_labels(shard, first, labels); });
  }
  if (checksum.value() != shard.header.payload_checksum) {
    fail(ExitCode::data,
         "{}: the payload does not match its checksum payload_xxh3 ({:016x}, computed {:016x}): "
         "the file "
         "was damaged; restore it or re-pack the data set",
         shard.path, shard.header.payload_checksum, checksum.value());
  }
}

std::vector<ShardReport> verify_dataset(const std::string& path, const ByteProgress& progress) {
  const ShardList list = list_shards(path, "");
  std::vector<ShardReport> reports;
  bool sound = true;
  for (const std::string& file : list.paths) {
    ShardReport report{file, {}, 0};
    try {
      const Shard shard = open_shard(file);
      report.bytes = shard.file_bytes;
      verify_payload(shard, progress);
    } catch (const Error& error) {
      report.problem = error.what();
      sound = false;
    }
    reports.push_back(std::move(report));
  }
  if (!sound) return reports;
  try {
    const ShardSet together(list);
  } catch (const Error& error) {
    reports.push_back({path, error.what(), 0});
  }
  return reports;
}

}  // namespace trireme
