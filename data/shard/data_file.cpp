// SPDX-License-Identifier: Apache-2.0
#include "data/shard/data_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <unordered_map>

#include "data/shard/open_files.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {

std::shared_ptr<LocalCopy> LocalCopy::of(const std::string& path) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::weak_ptr<LocalCopy>> copies;
  const std::lock_guard lock(mutex);
  std::weak_ptr<LocalCopy>& known = copies[path];
  std::shared_ptr<LocalCopy> copy = known.lock();
  if (!copy) known = copy = std::make_shared<LocalCopy>();
  return copy;
}

void LocalCopy::publish(std::string copy) {
  State before = none;
  if (!state_.compare_exchange_strong(before, arriving)) return;
  path_ = std::move(copy);
  state_.store(there, std::memory_order_release);
}

bool LocalCopy::withdraw(std::string_view why) {
  State before = there;
  if (!state_.compare_exchange_strong(before, gone)) return false;
  log::get("data").warn("{}: this copy is no longer used; its source is read instead: {}", path_,
                        why);
  return true;
}

DataFile::DataFile(std::string path)
    : source_(std::move(path)),
      copy_(LocalCopy::of(source_.path())),
      times_(ReadTimes::of(source_.path())),
      opened_(std::make_unique<Opened>()) {
  leave_room_for_others(source_.descriptor().get(), source_.path());
}

void DataFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  const auto begin = std::chrono::steady_clock::now();
  if (!copy_->is_there() || !read_copy(offset, to)) source_.read(offset, to);
  times_->add(std::chrono::steady_clock::now() - begin, to.size());
}

void DataFile::require_unchanged(const ChangeWatch& watch) const {
  if (!copy_->is_there()) watch.check(source_.descriptor(), path());
}

bool DataFile::read_copy(std::uint64_t offset, std::span<std::byte> to) const {
  try {
    std::call_once(opened_->once, [&] {
      FileDescriptor file = open_regular_file(copy_->path(), ExitCode::data);
      leave_room_for_others(file.get(), copy_->path());
      opened_->file = std::move(file);
    });
    read_exactly(opened_->file, copy_->path(), offset, to, ExitCode::data);
    return true;
  } catch (const Error& error) {
    copy_->withdraw(error.what());
    return false;
  }
}

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  file_ = open_regular_file(path_, ExitCode::data);
  size_ = regular_file_size(file_, path_, ExitCode::data);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  read_exactly(file_, path_, offset, to, ExitCode::data);
}

SpoolFile::SpoolFile(const std::string& directory) : directory_(directory) {
  file_ = FileDescriptor(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file_.get() >= 0) return;
  // For file systems without O_TMPFILE: a named file that is unlinked at once.
  std::string name = directory + "/.spool-XXXXXX";
  file_ = FileDescriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (file_.get() < 0) system_failed("mkostemp", name, ExitCode::internal);
  if (::unlink(name.c_str()) != 0) system_failed("unlink", name, ExitCode::internal);
}

void SpoolFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) write_failed("pwrite", directory_ + "/(temporary copy of the input)");
    size_ += static_cast<std::uint64_t>(wrote);
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
}

void SpoolFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  read_exactly(file_, directory_ + "/(temporary copy of the input)", offset, to,
               ExitCode::internal);
}

}  // namespace trireme
