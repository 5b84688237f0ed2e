// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/atomic_file.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace trireme {
namespace {

// Returns `path` if an atomic file may replace it.
const std::string& replaceable(const std::string& path, ExitCode code) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (path.empty()) fail(code, "the name of the file to write is empty");
  const std::string directory = parent_directory(path);
  if (!fs::exists(directory, ignored) && ignored == std::error_code())
    fail(code, "{}: the directory {} does not exist; create it first", path, directory);
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) fail(code, "{}: is a directory; name a file", path);
  const bool device = fs::exists(status) && !fs::is_regular_file(status);
  // A link to something that a process has open.
  const bool stream = fs::is_symlink(path, ignored) && fs::equivalent(directory, "/dev", ignored);
  if (device || stream)
    fail(code, "{}: is a device or a pipe, which the new file would replace; name a file", path);
  return path;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path, ExitCode code)
    : path_(replaceable(path, code)),
      name_(std::filesystem::path(path).filename().string()),
      code_(code),
      directory_(
          with_context(path, [&] { return OutputDirectory(parent_directory(path), code); })) {
  directory_.remove_dead_temporaries(name_);
  std::tie(temporary_, file_) = directory_.create_temporary(name_);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) directory_.remove(temporary_);
}

void AtomicFile::write(std::span<const std::byte> data) {
  write_fully(file_, path_, data, code_);
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) write_failed("fsync", path_, code_);
  directory_.rename(temporary_, name_);
  temporary_.clear();
  file_.close(path_, code_);
  directory_.sync();
}

void require_writable(const std::string& path, ExitCode code) {
  const std::string directory = parent_directory(replaceable(path, code));
  if (::access(directory.c_str(), W_OK | X_OK) != 0)
    fail(code, "{}: the directory {} is not writable: {}; name another file", path, directory,
         std::generic_category().message(errno));
}

void write_file(const std::string& path, std::string_view text, ExitCode code) {
  AtomicFile file(path, code);
  file.write(text);
  file.commit();
}

}  // namespace trireme
