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
#include <utility>
#include <vector>

#include "launch/doctor/host_check.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr std::size_t test_bytes = std::size_t{8} << 20;

constexpr unsigned long tmpfs = 0x01021994;
constexpr std::pair<unsigned long, const char*> known_systems[] = {
    {0x6969, "NFS"},       {0x0BD00BD0, "Lustre"},  {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"},
    {0x00C36400, "Ceph"},  {0xFF534D42, "SMB"},     {0xEF53, "ext4"},     {0x58465342, "XFS"},
    {0x9123683E, "Btrfs"}, {0x794C7630, "overlay"}, {tmpfs, "tmpfs"},     {0x65735546, "FUSE"}};

unsigned long file_system_of(const std::string& path) {
  struct statfs facts {};
  if (::statfs(path.c_str(), &facts) != 0) system_failed("statfs", path);
  return static_cast<unsigned long>(facts.f_type);
}

std::string name_of_file_system(unsigned long type) {
  for (const auto& [known, name] : known_systems) {
    if (type == known) return name;
  }
  return fmt::format("type {:#x}", type);
}

// A file that is always removed at the end.
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

  // MB/s, including fsync.
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

}  // namespace

fs::path nearest_directory(const std::string& path) {
  fs::path place = fs::absolute(path);
  std::error_code ignored;
  while (!fs::is_directory(place, ignored) && place != place.parent_path())
    place = place.parent_path();
  return place;
}

void check_storage(Findings& findings, const std::string& subject, const std::string& path) {
  const fs::path place = nearest_directory(path);
  try {
    const unsigned long system = file_system_of(place);
    struct statvfs space {};
    if (::statvfs(place.c_str(), &space) != 0) system_failed("statvfs", place.string());
    const double free =
        1e-9 * static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
    const TestFile file(place);
    const double written = file.write_and_sync(), read = file.read();
    const std::string text =
        fmt::format("{} on {}, {:.0f} GB free, {:.0f} MB/s written to disk, {:.0f} MB/s read back",
                    place.string(), name_of_file_system(system), free, written, read);
    constexpr double min_free = 1;
    if (system == tmpfs) {
      findings.note(subject, text, "a reboot deletes what is written there; use a disk");
    } else if (free < min_free) {
      findings.note(subject, text, "free some space: checkpoints take 12 bytes per parameter");
    } else {
      findings.fine(subject, text);
    }
  } catch (const Error& error) {
    findings.problem(subject, error.what(), "choose a directory that this user can write to");
  }
}

}  // namespace trireme::doctor
