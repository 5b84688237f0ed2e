// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5/child.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>
#include <optional>
#include <utility>

#include "data/index_archive.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/process.h"

namespace trireme {
namespace {

// Note [The child's protocol]
// Standard input of the child is a socket. Both sides send messages: a length and that many bytes.
// A question is a ChildQuestion; its answer starts with 'a', or with 'e' before an error's text.
// The parent does not trust it: answers are parsed and checked as untrusted input.
constexpr const char* child_argument = "hdf5-child";
struct Limits {
  rlim_t seconds;  // CPU time
  rlim_t memory;   // bytes in addition to the program's own mappings
};
constexpr Limits limits_of_index{60, rlim_t{4} << 30};
constexpr Limits limits_of_shard{5, rlim_t{256} << 20};
constexpr std::uint64_t longest_message = std::uint64_t{16} << 30;

std::atomic<bool> main_serves = false;

struct ChildQuestion {
  std::string path{};
  bool is_shard = false;
  ScanRequest request{};
};

template <typename Archive>
void transfer(Archive& archive, ChildQuestion& question) {
  archive(question.path);
  archive(question.request.fields);
  archive(question.request.groups);
  archive(question.request.group_list);
  for (bool* const flag : {&question.is_shard, &question.request.outside_links,
                           &question.request.bfloat16, &question.request.unpack})
    transfer(archive, *flag);
}

// The parent's socket times out every second. Its patience counts these seconds, not the clock's,
// so that a job that was stopped by Ctrl-Z goes on. The child waits as long as its parent lives.
bool may_retry(std::int64_t& patience) {
  return errno == EINTR || (errno == EAGAIN && --patience > 0);
}

bool send_message(int to, std::string_view bytes, std::int64_t& patience) {
  const std::uint64_t length = bytes.size();
  std::string message(reinterpret_cast<const char*>(&length), sizeof(length));
  message += bytes;
  for (std::string_view rest = message; !rest.empty();) {
    const ssize_t sent = ::send(to, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && may_retry(patience)) continue;
    if (sent <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// Allocates only for received bytes, because the length is not trusted.
bool receive_bytes(int from, std::uint64_t count, std::string& to, std::int64_t& patience) {
  constexpr std::uint64_t at_once = 1 << 18;
  while (to.size() < count) {
    const std::size_t had = to.size();
    to.resize(had + std::min(at_once, count - had));
    const ssize_t got = ::read(from, to.data() + had, to.size() - had);
    const bool again = got < 0 && may_retry(patience);
    to.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (again) continue;
    if (got <= 0) return false;
  }
  return true;
}

// None if the other side has ended.
std::optional<std::string> receive_message(int from, std::int64_t& patience) {
  std::string head, bytes;
  std::uint64_t length = 0;
  if (!receive_bytes(from, sizeof(length), head, patience)) return std::nullopt;
  std::memcpy(&length, head.data(), sizeof(length));
  if (length > longest_message || !receive_bytes(from, length, bytes, patience))
    return std::nullopt;
  return bytes;
}

// ---- In the child.

void limit(decltype(RLIMIT_AS) what, rlim_t value) {
  rlimit wanted{};
  if (::getrlimit(what, &wanted) != 0) return;
  wanted.rlim_cur = std::min(value, wanted.rlim_max);
  static_cast<void>(::setrlimit(what, &wanted));
}

// Address space of this process, now.
rlim_t mapped_bytes() {
  unsigned long pages = 0;
  if (std::FILE* const file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

void allow(const Limits& limits) {
  static const rlim_t own_memory = mapped_bytes();
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) == 0)
    limit(RLIMIT_CPU,
          static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + limits.seconds + 1);
    // Sanitizers reserve terabytes of address space.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  limit(RLIMIT_AS, own_memory + limits.memory);
#endif
}

std::string answer_to(const std::string& message) {
  ChildQuestion question;
  IndexParser parser(message, "a question about an HDF5 file");
  transfer(parser, question);
  const std::string& path = question.path;
  allow(question.is_shard ? limits_of_shard : limits_of_index);
  std::string answer = "a";
  try {
    if (question.is_shard) {
      append_facts(answer, read_shard_facts(path));
    } else {
      append_index(answer, scan_file(path, question.request));
    }
  } catch (const std::exception& error) {
    const std::string what = error.what();  // some library errors only name the object
    answer = "e" + (what.find(path) == std::string::npos ? path + ": " + what : what);
  }
  return answer;
}

// Ends with its parent: by its end of the socket, or, inside a question, by the kernel.
[[noreturn]] void serve() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  // Signals to the job are for its parent to handle.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXFSZ})
    std::signal(signal, SIG_IGN);
  // Plugin filters are disabled; metadata does not need them.
  ::setenv("HDF5_PLUGIN_PRELOAD", "::", 1);
  std::int64_t endless = 0;  // this end of the socket has no timeout
  while (const auto question = receive_message(STDIN_FILENO, endless)) {
    if (!send_message(STDIN_FILENO, answer_to(*question), endless)) break;
  }
  ::_exit(EXIT_SUCCESS);
}

// ---- In the parent.

[[noreturn]] void refuse_file(const std::string& path, int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    fail(ExitCode::data,
         "{}: the HDF5 library was ended by signal {} ({}{}) when it read the metadata of this "
         "file: {}",
         path, signal, ::strsignal(signal), signal == SIGXCPU ? ", after its time limit" : "",
         signal == SIGKILL ? "most likely the host or the job has too little memory; give it more, "
                             "or start fewer ranks per host"
                           : "the file is damaged or malicious");
  }
  fail(ExitCode::data, "{}: the process that reads HDF5 metadata ended with code {} on this file",
       path, WIFEXITED(status) ? WEXITSTATUS(status) : status);
}

}  // namespace

void serve_hdf5_child(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == child_argument) serve();
  main_serves = true;
}

std::shared_ptr<Hdf5Child> Hdf5Child::shared() {
  static std::mutex mutex;
  static std::weak_ptr<Hdf5Child> held;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Hdf5Child> child = held.lock();
  if (!child) held = child = std::make_shared<Hdf5Child>();
  return child;
}

Hdf5Child::~Hdf5Child() {
  if (process_ > 0) static_cast<void>(end());
}

FileIndex Hdf5Child::index(const std::string& path, const ScanRequest& request) {
  std::vector<FileIndex> parsed = parse_indexes(ask(path, &request));
  if (parsed.size() != 1 || parsed.front().path != path)
    fail(ExitCode::data, "{}: the HDF5 library answered for another file", path);
  return std::move(parsed.front());
}

ShardFacts Hdf5Child::shard(const std::string& path) {
  return parse_facts(ask(path, nullptr));
}

std::string Hdf5Child::ask(const std::string& path, const ScanRequest* request) {
  ChildQuestion question{.path = path, .is_shard = request == nullptr};
  if (request != nullptr) question.request = *request;
  std::string message;
  IndexWriter writer(message);
  transfer(writer, question);
  const auto most = environment_number("TRIREME_HDF5_SECONDS", 1, 86400).value_or(600);
  const std::lock_guard lock(mutex_);
  for (bool killed = false;;) {
    const bool fresh = process_ <= 0;
    if (fresh) start();
    std::optional<std::string> answer;
    std::int64_t patience = most;
    if (send_message(socket_.get(), message, patience))
      answer = receive_message(socket_.get(), patience);
    if (answer && answer->starts_with('a')) return answer->substr(1);
    if (answer && answer->starts_with('e')) throw Error(ExitCode::data, answer->substr(1));
    const int status = end();
    if (patience <= 0)
      fail(
          ExitCode::data,
          "{}: the process that reads HDF5 metadata gave no answer in {} s; if this file system is "
          "slow, set TRIREME_HDF5_SECONDS to more",
          path, most);
    // Retries, because an earlier file may have damaged the library's memory, and because the
    // kernel ends this process where others use up the memory.
    if (!fresh) continue;
    const bool again = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !killed;
    if (!again) refuse_file(path, status);
    killed = true;
  }
}

void Hdf5Child::start() {
  if (!main_serves) {
    fail(ExitCode::internal,
         "this program opens HDF5 files without a process for the HDF5 library: call "
         "trireme::serve_hdf5_child(argc, argv) of data/hdf5/child.h first in its main");
  }
  int ends[2] = {};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    system_failed("socketpair", "the process that reads HDF5 metadata");
  socket_ = FileDescriptor(ends[0]);
  const timeval second{1, 0};
  for (const int wait : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (::setsockopt(ends[0], SOL_SOCKET, wait, &second, sizeof(second)) != 0)
      system_failed("setsockopt", "the process that reads HDF5 metadata");
  }
  const FileDescriptor theirs(ends[1]);
  process_ = spawn({"/proc/self/exe", child_argument}, {.input = theirs.get(),
                                                        .output = no_stream,
                                                        .errors = no_stream,
                                                        .closes_rest = true,
                                                        .failure = ExitCode::internal});
}

int Hdf5Child::end() {
  socket_ = FileDescriptor();
  return kill_and_wait(std::exchange(process_, -1), false);
}

std::vector<FileIndex> scan_in_children(std::span<const std::string> paths,
                                        const ScanRequest& request, std::size_t processes) {
  constexpr std::size_t worth_a_process = 16;  // files
  const std::size_t count = std::clamp<std::size_t>(paths.size() / worth_a_process, 1,
                                                    std::max<std::size_t>(processes, 1));
  const auto scan = [&](std::size_t part) {
    Hdf5Child child;
    std::vector<FileIndex> indexes;
    for (std::size_t i = paths.size() * part / count; i < paths.size() * (part + 1) / count; ++i)
      indexes.push_back(child.index(paths[i], request));
    return indexes;
  };
  std::vector<std::future<std::vector<FileIndex>>> parts;
  for (std::size_t part = 1; part < count; ++part)
    parts.push_back(std::async(std::launch::async, scan, part));
  std::vector<FileIndex> all = scan(0);
  for (auto& part : parts)
    std::ranges::move(part.get(), std::back_inserter(all));
  return all;
}

}  // namespace trireme
