// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/atomic_file.h"

#include <unistd.h>

#include <filesystem>

namespace trireme {
AtomicFile::AtomicFile(const std::string& path, ExitCode code)
    : path_(path),
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
  if (::fsync(file_.get()) != 0) system_failed("fsync", path_, code_);
  directory_.rename(temporary_, name_);
  temporary_.clear();
  file_.close(path_, code_);
  directory_.sync();
}

void write_file(const std::string& path, std::string_view text, ExitCode code) {
  AtomicFile file(path, code);
  file.write(text);
  file.commit();
}

}  // namespace trireme
