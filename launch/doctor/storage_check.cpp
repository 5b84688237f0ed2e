// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "launch/doctor/host_check.h"
#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr std::size_t test_bytes = std::size_t{8} << 20;

struct FileSystem {
  std::string type;
  bool networked = false;
  bool in_memory = false;
};

FileSystem file_system_of(const std::string& path) {
  struct statfs facts {};
  if (::statfs(path.c_str(), &facts) != 0) system_failed("statfs", path);
  switch (static_cast<unsigned long>(facts.f_type)) {
    case 0x6969:
      return {"NFS", true, false};
    case 0x0BD00BD0:
      return {"Lustre", true, false};
    case 0x47504653:
      return {"GPFS", true, false};
    case 0x19830326:
      return {"BeeGFS", true, false};
    case 0x00C36400:
      return {"Ceph", true, false};
    case 0xFF534D42:
      return {"SMB", true, false};
    case 0xEF53:
      return {"ext4", false, false};
    case 0x58465342:
      return {"XFS", false, false};
    case 0x9123683E:
      return {"Btrfs", false, false};
    case 0x794C7630:
      return {"overlay", false, false};
    case 0x01021994:
      return {"tmpfs", false, true};
    case 0x65735546:
      return {"FUSE", true, false};
    default:
      return {fmt::format("type {:#x}", static_cast<unsigned long>(facts.f_type)), false, false};
  }
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A file that is gone again at the end, whatever happens.
class TestFile {
 public:
  explicit TestFile(const fs::path& directory)
      : path_((directory / ".trireme-doctor-XXXXXX").string()), file_(::mkstemp(path_.data())) {
    if (file_ < 0) system_failed("mkstemp", path_);
  }
  ~TestFile() {
    ::close(file_);
    ::unlink(path_.c_str());
  }
  TestFile(const TestFile&) = delete;
  TestFile& operator=(const TestFile&) = delete;

  // MB/s, until the bytes are on the disk.
  double write_and_sync() const {
    const std::vector<char> bytes(test_bytes, 'x');
    const auto start = Clock::now();
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t written = ::write(file_, bytes.data() + done, bytes.size() - done);
      if (written < 0) system_failed("write", path_);
      done += static_cast<std::size_t>(written);
    }
    if (::fsync(file_) != 0) system_failed("fsync", path_);
    return 1e-6 * static_cast<double>(test_bytes) / seconds_since(start);
  }
  double read() const {
    std::vector<char> bytes(test_bytes);
    const auto start = Clock::now();
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t got =
          ::pread(file_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
      if (got < 0) system_failed("pread", path_);
      if (got == 0) fail(ExitCode::internal, "{} ended early", path_);
      done += static_cast<std::size_t>(got);
    }
    return 1e-6 * static_cast<double>(test_bytes) / seconds_since(start);
  }

 private:
  std::string path_;
  int file_;
};

fs::path nearest_existing(const std::string& path) {
  fs::path place = fs::absolute(path);
  std::error_code ignored;
  while (!fs::is_directory(place, ignored) && place.has_parent_path() &&
         place != place.parent_path()) {
    place = place.parent_path();
  }
  return place;
}

}  // namespace

void check_storage(Findings& findings, const std::string& subject, const std::string& path) {
  const fs::path place = nearest_existing(path);
  try {
    const FileSystem system = file_system_of(place);
    struct statvfs space {};
    if (::statvfs(place.c_str(), &space) != 0) system_failed("statvfs", place.string());
    const double free =
        1e-9 * static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
    const TestFile file(place);
    const double written = file.write_and_sync(), read = file.read();
    const std::string text =
        fmt::format("{} on {}, {:.0f} GB free, {:.0f} MB/s written to disk, {:.0f} MB/s read back",
                    place.string(), system.type, free, written, read);
    constexpr double least_free = 1;
    if (system.in_memory) {
      findings.note(subject, text, "what is written there is gone after a reboot; use a disk");
    } else if (free < least_free) {
      findings.note(subject, text, "free some space: checkpoints take 12 bytes per parameter");
    } else {
      findings.fine(subject, text);
    }
  } catch (const Error& error) {
    findings.problem(subject, error.what(), "choose a directory that this user may write to");
  }
}

}  // namespace trireme::doctor
