// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/run_owner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "runtime/base/atomic_file.h"
#include "runtime/base/clock.h"
#include "runtime/base/environment.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

using json = nlohmann::ordered_json;

// For a batch job that was requeued from a dead host: the file server still holds its lock.
constexpr double same_job_patience_seconds = 120;
constexpr auto pause = std::chrono::milliseconds(50);

std::string text_in(const std::string& path) {
  constexpr std::streamsize longest = 4 << 20;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";  // a pipe would block
  std::ifstream file(path);
  std::string text(longest, '\0');
  file.read(text.data(), longest);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::string batch_job() {
  const char* const job = std::getenv("SLURM_JOB_ID");
  return job == nullptr ? "" : job;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

// A field of untrusted text.
std::string field(const json& notes, const char* name) {
  if (!notes.is_object() || !notes.contains(name)) return "?";
  return notes[name].is_string() ? notes[name].get<std::string>() : notes[name].dump();
}

json notes_in(const std::string& path) {
  return json_or_discarded<json>(text_in(path));
}

std::string describe(const json& notes) {
  if (!notes.is_object()) return "another job";
  const std::string job = field(notes, "job");
  return fmt::format("process {} on {}{} (started {})", field(notes, "process"),
                     field(notes, "host"), job.empty() ? "" : ", job " + job,
                     field(notes, "start_time"));
}

[[noreturn]] void no_locks(const std::string& key, const std::string& path,
                           const std::string& why) {
  fail(ExitCode::config,
       "{}: {}: cannot be locked against other jobs: {}; use a local file system, NFS version 4, "
       "or Lustre mounted with flock",
       key, path, why);
}

bool lock_is_denied(int reason) {
  return reason == EAGAIN || reason == EACCES;
}

bool is_untouched(const struct stat& now, const struct stat& before) {
  return now.st_ino == before.st_ino && now.st_dev == before.st_dev &&
         now.st_size == before.st_size && now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
         now.st_ctim.tv_nsec == before.st_ctim.tv_nsec;
}

}  // namespace

RunOwner::RunOwner(std::string run_directory, double patience_seconds, std::string key)
    : directory_(std::move(run_directory)),
      patience_seconds_(patience_seconds),
      key_(std::move(key)) {}

void RunOwner::take_if_there() {
  struct stat status {};
  if (!file_.is_open() && ::lstat(lock_path().c_str(), &status) == 0) lock(O_RDWR);
}

void RunOwner::take() {
  if (!file_.is_open()) lock(O_RDWR | O_CREAT);
  const json before = notes_in(notes_path());
  const bool counted = before.is_object() && before.contains("epoch") &&
                       before["epoch"].is_number_integer() &&
                       before["epoch"].get<std::int64_t>() > 0;
  epoch_ = counted ? before["epoch"].get<std::int64_t>() + 1 : 1;
  const json notes = {{"epoch", epoch_},
                      {"host", host_name()},
                      {"process", ::getpid()},
                      {"job", batch_job()},
                      {"start_time", utc_now()}};
  notes_ = notes.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  write_notes();
  OutputDirectory(directory_, ExitCode::config).remove_dead_temporaries("");
}

void RunOwner::write_notes() {
  write_file(notes_path(), notes_, ExitCode::config);
  if (::stat(notes_path().c_str(), &notes_status_) != 0) notes_status_ = {};
}

void RunOwner::end(std::int64_t step) {
  require();
  json notes = parse_json<json>(notes_);
  notes["ended_after"] = step;
  notes_ = notes.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  write_notes();
}

std::optional<std::int64_t> RunOwner::end_of(const std::string& run_directory) {
  const json notes = notes_in(run_directory + "/owner.json");
  const bool ended = notes.is_object() && notes.contains("ended_after") &&
                     notes["ended_after"].is_number_integer();
  return ended ? std::optional(notes["ended_after"].get<std::int64_t>()) : std::nullopt;
}

void RunOwner::require() const {
  struct stat status {};
  if (::stat(notes_path().c_str(), &status) == 0 && is_untouched(status, notes_status_)) return;
  const std::string now = text_in(notes_path());
  if (now == notes_) return;
  fail(ExitCode::config, "{}: {}: now belongs to {}; this job ends and writes nothing more there",
       key_, directory_,
       now.empty() ? "nobody (owner.json is gone)" : describe(notes_in(notes_path())));
}

std::optional<bool> RunOwner::is_held(const std::string& run_directory) {
  const FileDescriptor file(::open((run_directory + "/owner.lock").c_str(),
                                   O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (!file.is_open() || ::fcntl(file.get(), F_OFD_GETLK, &whole) != 0) return {};
  return whole.l_type != F_UNLCK;
}

void RunOwner::lock(int flags) {
  const auto start = std::chrono::steady_clock::now();
  while (!try_lock(flags)) {
    const json notes = notes_in(notes_path());
    const bool same_job = !batch_job().empty() && field(notes, "job") == batch_job();
    if (seconds_since(start) > (same_job ? same_job_patience_seconds : patience_seconds_)) {
      fail(ExitCode::config,
           "{}: {}: is in use by {}; wait for its end or end it, or choose another {}", key_,
           directory_, describe(notes), key_);
    }
    std::this_thread::sleep_for(pause);
  }
  std::error_code error;
  const auto place = std::filesystem::canonical(directory_, error);
  const std::string why = why_locks_are_local(text_in("/proc/self/mountinfo"), place.string());
  if (!why.empty()) no_locks(key_, directory_, why);
}

bool RunOwner::try_lock(int flags) {
  const std::string path = lock_path();
  refuse_link(path, ExitCode::config);
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
  if (!file.is_open())
    fail(code_of_failed_write(errno, ExitCode::config), "{}: {}: cannot be opened: {}", key_, path,
         std::strerror(errno));
  refuse_second_name(file, path, ExitCode::config);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(file.get(), F_OFD_SETLK, &whole) != 0) {
    if (!lock_is_denied(errno)) no_locks(key_, path, std::strerror(errno));
    return false;
  }
  // The file may have been removed meanwhile, and another process may have locked a new one.
  struct stat ours {
  }, there{};
  if (::fstat(file.get(), &ours) != 0 || ::stat(path.c_str(), &there) != 0 ||
      ours.st_ino != there.st_ino || ours.st_dev != there.st_dev)
    return false;
  file_ = std::move(file);
  return true;
}

namespace {

struct Mount {
  std::string place, type, options;
};

// A line is "36 35 98:0 /root /place options [tags] - type source super_options".
Mount mount_of(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> before, after;
  bool divided = false;
  for (std::string word; words >> word;) {
    if (!divided && word == "-") {
      divided = true;
    } else {
      (divided ? after : before).push_back(word);
    }
  }
  if (before.size() < 6 || after.size() < 3) return {};
  return {before[4], after[0], before[5] + "," + after[2]};
}

bool holds(std::string_view place, std::string_view path) {
  if (place == "/") return true;
  return path.starts_with(place) && (path.size() == place.size() || path[place.size()] == '/');
}

bool has_option(const std::string& options, std::string_view wanted) {
  std::istringstream all(options);
  for (std::string option; std::getline(all, option, ',');) {
    if (option == wanted) return true;
  }
  return false;
}

}  // namespace

std::string why_locks_are_local(std::string_view mounts, std::string_view path) {
  std::istringstream lines{std::string(mounts)};
  Mount found;
  for (std::string line; std::getline(lines, line);) {
    Mount mount = mount_of(line);
    // Of two on one place the later hides the earlier.
    if (holds(mount.place, path) && mount.place.size() >= found.place.size()) found = mount;
  }
  const auto with = [&](std::string_view option) {
    return fmt::format("{} ({}) is mounted with {}", found.place, found.type, option);
  };
  if (found.type.starts_with("nfs")) {
    for (const char* const option : {"nolock", "local_lock=all", "local_lock=posix"}) {
      if (has_option(found.options, option)) return with(option);
    }
  }
  if (found.type == "lustre" && has_option(found.options, "localflock")) return with("localflock");
  return "";
}

}  // namespace trireme
