// SPDX-License-Identifier: Apache-2.0
// Iterates over the regular files of a tar archive: ustar (POSIX.1-1988), pax (POSIX.1-2001), and
// GNU tar's long names and large numbers. Headers are treated as untrusted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/checksum.h"
#include "runtime/base/file.h"

namespace trireme {

// An archive that cannot be read beyond some place.
class BrokenTar : public Error {
 public:
  explicit BrokenTar(const std::string& message) : Error(ExitCode::data, message) {}
};

// A name for messages: control characters as \xNN.
[[nodiscard]] std::string shown_name(std::string_view name);

struct TarMember {
  std::string name;
  std::uint64_t offset = 0, bytes = 0;  // of its content in the archive
};

class TarMembers {
 public:
  // `file` is open at `path`, has `bytes` bytes, and outlives this.
  TarMembers(const FileDescriptor& file, std::string path, std::uint64_t bytes);

  // Skips directories; nullopt at the end mark, which only zeros may follow. Raises BrokenTar,
  // naming byte and member, for a header that is damaged or of another format, a member that
  // exceeds the archive, a missing end mark, and anything but plain files: links, devices, pipes,
  // sparse files.
  [[nodiscard]] std::optional<TarMember> next();

  // The content of a member of at most `limit` bytes. Raises ExitCode::data.
  [[nodiscard]] std::string content(const TarMember& member, std::uint64_t limit);

  // XXH3-64 of the headers and of the contents read so far.
  [[nodiscard]] std::uint64_t digest() const { return digest_.value(); }

 private:
  struct Header;
  // Information in extra headers before a member.
  struct Extra {
    std::optional<std::string> long_name, path;
    std::optional<std::uint64_t> size;
  };

  [[nodiscard]] std::span<const std::byte> block(std::uint64_t at);
  void check(const Header& header) const;
  void read_extra(const Header& header, Extra& extra);
  void read_records(const std::string& records, bool global, Extra& extra) const;
  void set_record(std::string_view key, std::string_view value, bool global, Extra& extra) const;
  void check_rest(std::uint64_t at);
  [[nodiscard]] std::uint64_t end_of(std::uint64_t offset, std::uint64_t bytes,
                                     const std::string& name) const;
  [[noreturn]] void refuse(std::uint64_t at, const std::string& reason) const;

  const FileDescriptor& file_;
  std::string path_;
  std::uint64_t bytes_;
  std::uint64_t at_ = 0;      // of the next header
  std::uint64_t header_ = 0;  // the latest one
  std::vector<std::byte> window_;
  std::uint64_t window_at_ = 0;
  Checksum digest_;
};

}  // namespace trireme
