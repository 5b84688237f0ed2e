// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/wandb_file.h"

#include <zlib.h>

#include <algorithm>
#include <fstream>

namespace trireme {
namespace {

constexpr std::string_view header("\x3a\x57\x26\x42\xe1\xbe\x00", 7);  // ":W&B", 0xbee1, version 0
constexpr std::uint64_t block = 32768, head = 7;
enum class Part : std::uint8_t { full = 1, first = 2, middle = 3, last = 4 };

std::uint32_t checksum(Part part, std::string_view bytes) {
  const auto type = static_cast<Bytef>(part);
  const uLong of_type = crc32(0, &type, 1);
  return static_cast<std::uint32_t>(crc32(of_type, reinterpret_cast<const Bytef*>(bytes.data()),
                                          static_cast<uInt>(bytes.size())));
}

std::string part_of(Part part, std::string_view bytes) {
  const std::uint32_t crc = checksum(part, bytes);
  std::string text;
  for (int shift = 0; shift < 32; shift += 8)
    text += static_cast<char>(crc >> shift);
  text += static_cast<char>(bytes.size() & 0xff);
  text += static_cast<char>(bytes.size() >> 8);
  text += static_cast<char>(part);
  text += bytes;
  return text;
}

// The records of a file, one after the other; ends before the first that is not whole.
class Scan {
 public:
  explicit Scan(const std::string& path) : stream_(path, std::ios::binary) {
    std::string start(header.size(), '\0');
    good_ = static_cast<bool>(stream_.read(start.data(), static_cast<std::streamsize>(head))) &&
            start == header;
    offset_ = head;
  }

  [[nodiscard]] bool good() const { return good_; }
  // Where the next record begins, or the padding in front of it.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  std::optional<std::string> next() {
    std::string record;
    std::uint64_t at = offset_;
    for (Part part = Part::first; good_ && part != Part::full && part != Part::last;) {
      const std::uint64_t left = block - at % block;
      if (left < head) {
        stream_.ignore(static_cast<std::streamsize>(left));
        at += left;
      }
      const auto piece = read_part();
      if (!piece) return {};
      part = piece->first;
      record += piece->second;
      at += head + piece->second.size();
    }
    if (!good_) return {};
    offset_ = at;
    return record;
  }

 private:
  std::optional<std::pair<Part, std::string>> read_part() {
    std::string start(head, '\0');
    if (!stream_.read(start.data(), static_cast<std::streamsize>(head))) return {};
    const auto byte = [&](std::size_t i) {
      return static_cast<std::uint32_t>(static_cast<unsigned char>(start[i]));
    };
    std::string bytes(byte(4) | byte(5) << 8, '\0');
    if (!stream_.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) return {};
    const auto part = static_cast<Part>(byte(6));
    const std::uint32_t crc = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
    if (part < Part::full || part > Part::last || crc != checksum(part, bytes)) return {};
    return std::pair(part, bytes);
  }

  std::ifstream stream_;
  bool good_ = false;
  std::uint64_t offset_ = 0;
};

std::uint64_t varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; !bytes.empty() && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

constexpr std::uint64_t tag_of(int field, unsigned wire) {
  return static_cast<std::uint64_t>(field) << 3 | wire;
}

// We write the kind of a record first, and the step first of what a history record holds.
bool is_kept(std::string_view record, std::int64_t done) {
  const std::uint64_t kind = varint(record);
  for (const int end : {wandb::record_exit, wandb::record_final, wandb::record_preempting})
    if (kind == tag_of(end, 2)) return false;
  if (kind != tag_of(wandb::record_history, 2)) return true;
  varint(record);  // its length
  if (varint(record) != tag_of(wandb::history_step, 2)) return false;
  varint(record);
  if (varint(record) != tag_of(wandb::step_num, 0)) return false;
  return static_cast<std::int64_t>(varint(record)) <= done;
}

}  // namespace

WandbFile::WandbFile(const OutputDirectory& directory, const std::string& name,
                     std::optional<std::int64_t> done)
    : file_(directory, name) {
  if (done && file_.size() > 0) keep_up_to(*done);
  if (records_ > 0) return;
  file_.truncate(0);
  file_.add(header);
}

void WandbFile::keep_up_to(std::int64_t done) {
  Scan scan(file_.path());
  std::uint64_t keep = scan.offset();
  while (const auto record = scan.next()) {
    if (!is_kept(*record, done)) break;
    keep = scan.offset();
    ++records_;
  }
  if (records_ > 0) file_.truncate(keep);
}

void WandbFile::add(ProtobufWriter content) {
  content.integer(wandb::record_num, ++records_);
  std::string_view rest = content.bytes();
  bool begun = false, ended = false;
  while (!ended) {
    const std::uint64_t left = block - file_.size() % block;
    if (left < head) {
      file_.add(std::string(left, '\0'));
      continue;
    }
    const std::string_view piece = rest.substr(0, left - head);
    rest.remove_prefix(piece.size());
    ended = rest.empty();
    const Part part =
        ended ? (begun ? Part::last : Part::full) : (begun ? Part::middle : Part::first);
    file_.add(part_of(part, piece));
    begun = true;
  }
}

}  // namespace trireme
