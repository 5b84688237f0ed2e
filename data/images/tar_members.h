// SPDX-License-Identifier: Apache-2.0
// The regular files of a tar archive, one header after the other: ustar (POSIX.1-1988), pax
// (POSIX.1-2001) and GNU tar's long names and large numbers. Headers are checked as if a stranger
// had written them.
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

// An archive that cannot be read on from some place.
class BrokenTar : public Error {
 public:
  explicit BrokenTar(const std::string& message) : Error(ExitCode::data, message) {}
};

// A name for a message: control characters as \xNN.
[[nodiscard]] std::string shown_name(std::string_view name);

struct TarMember {
  std::string name;
  std::uint64_t offset = 0, bytes = 0;  // of its content, inside the archive
};

class TarMembers {
 public:
  // `file` is open at `path`, has `bytes`, and outlives this.
  TarMembers(const FileDescriptor& file, std::string path, std::uint64_t bytes);

  // Directories are passed over; nullopt at the end mark, behind which are zeros alone. Raises
  // BrokenTar, naming byte and member, for a header that is damaged or of another format, a member
  // that reaches beyond the archive, a missing end mark, and whatever is no plain file: links,
  // devices, pipes, sparse files.
  [[nodiscard]] std::optional<TarMember> next();

  // All of a member of at most `limit` bytes. Raises ExitCode::data.
  [[nodiscard]] std::string content(const TarMember& member, std::uint64_t limit);

  // XXH3-64 of the headers and of the contents asked for so far.
  [[nodiscard]] std::uint64_t digest() const { return digest_.value(); }

 private:
  struct Header;
  // What the headers before a member say of it.
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
