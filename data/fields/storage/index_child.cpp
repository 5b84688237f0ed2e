// SPDX-License-Identifier: Apache-2.0
#include "data/fields/storage/index_child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace trireme {
namespace {

// Note [The child's protocol]
// Standard input is a file in memory: the request, then a path a line. Standard output is another
// one: per file a letter ('i' index, 'e' error), a length and as many bytes, written whole. The
// parent believes nothing of it: indexes are parsed as a stranger's.
constexpr const char* child_variable = "TRIREME_HDF5_INDEX_CHILD";
constexpr rlim_t memory_limit = rlim_t{4} << 30;   // bytes beyond what the program itself maps
constexpr rlim_t seconds_per_file = 60;            // of processor time
constexpr rlim_t output_limit = rlim_t{16} << 30;  // bytes

FileDescriptor memory_file(const char* name) {
  FileDescriptor file(::memfd_create(name, MFD_CLOEXEC));
  if (file.get() < 0) system_failed("memfd_create", name);
  return file;
}

std::string content_of(const FileDescriptor& file) {
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  if (size < 0) system_failed("lseek", "an index");
  std::string text(static_cast<std::size_t>(size), '\0');
  read_exactly(file, "(index)", 0, std::as_writable_bytes(std::span(text)), ExitCode::internal);
  return text;
}

std::string request_text(const ScanRequest& request, std::span<const std::string> paths) {
  std::string text = fmt::format("{:d} {:d} {:d} {:d} {}\n", request.groups, request.outside_links,
                                 request.bfloat16, request.unpack, request.fields.size());
  for (const std::string& field : request.fields)
    text += field + "\n";
  for (const std::string& path : paths)
    text += path + "\n";
  return text;
}

// ---- In the child.

void limit(decltype(RLIMIT_AS) what, rlim_t value) {
  const rlimit wanted{value, value};
  static_cast<void>(::setrlimit(what, &wanted));
}

void limit_memory() {
  // Sanitizers reserve terabytes of addresses.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  rlim_t pages = 0;
  if (std::FILE* const file = std::fopen("/proc/self/statm", "r")) {
    unsigned long mapped = 0;
    if (std::fscanf(file, "%lu", &mapped) == 1) pages = mapped;
    std::fclose(file);
  }
  limit(RLIMIT_AS, pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + memory_limit);
#endif
}

void allow_time_for_a_file() {
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) != 0) return;
  const rlimit wanted{
      static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + seconds_per_file,
      RLIM_INFINITY};
  static_cast<void>(::setrlimit(RLIMIT_CPU, &wanted));
}

bool reply(char kind, const std::string& bytes) {
  const std::uint64_t length = bytes.size();
  std::string message(1, kind);
  message.append(reinterpret_cast<const char*>(&length), sizeof(length));
  message += bytes;
  for (std::size_t done = 0; done < message.size();) {
    const ssize_t wrote = ::write(STDOUT_FILENO, message.data() + done, message.size() - done);
    if (wrote <= 0) return false;
    done += static_cast<std::size_t>(wrote);
  }
  return true;
}

std::vector<std::string> lines_of_input() {
  std::string text;
  char part[65536];
  for (ssize_t got = 0; (got = ::read(STDIN_FILENO, part, sizeof(part))) > 0;)
    text.append(part, static_cast<std::size_t>(got));
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

int run_child() {
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, output_limit);
  limit_memory();
  // No filter of a plugin runs here; metadata needs none.
  ::setenv("HDF5_PLUGIN_PRELOAD", "::", 1);
  const std::vector<std::string> lines = lines_of_input();
  int groups = 0, outside = 0, brain = 0, unpack = 0;
  std::size_t fields = 0;
  if (lines.empty() ||
      std::sscanf(lines[0].c_str(), "%d %d %d %d %zu", &groups, &outside, &brain, &unpack,
                  &fields) != 5 ||
      fields >= lines.size())
    return EXIT_FAILURE;
  const auto first = lines.begin() + 1, paths = first + static_cast<std::ptrdiff_t>(fields);
  const ScanRequest request{.fields = {first, paths},
                            .groups = groups != 0,
                            .outside_links = outside != 0,
                            .bfloat16 = brain != 0,
                            .unpack = unpack != 0};
  for (auto path = paths; path != lines.end(); ++path) {
    allow_time_for_a_file();
    std::string bytes;
    char kind = 'i';
    try {
      append_index(bytes, scan_file(*path, request));
    } catch (const std::exception& error) {
      kind = 'e';
      bytes = error.what();  // of the library's calls some know the object alone
      if (bytes.find(*path) == std::string::npos) bytes = *path + ": " + bytes;
    }
    if (!reply(kind, bytes)) return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

// Before main: of a program that is started with the variable, this is all that runs.
[[maybe_unused]] const bool is_child = [] {
  if (std::getenv(child_variable) == nullptr) return false;
  ::_exit(run_child());
}();

// ---- In the parent.

class Child {
 public:
  Child(std::span<const std::string> paths, const ScanRequest& request)
      : paths_(paths),
        input_(memory_file("hdf5-index-request")),
        output_(memory_file("hdf5-index")) {
    const std::string text = request_text(request, paths);
    write_fully(input_, "(request)", std::as_bytes(std::span(text)), ExitCode::internal);
    if (::lseek(input_.get(), 0, SEEK_SET) < 0) system_failed("lseek", "a request");
    start();
  }
  ~Child() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    static_cast<void>(wait());
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void collect(std::vector<FileIndex>& to) {
    const int status = wait();
    const std::string bytes = content_of(output_);
    std::string_view rest = bytes;
    for (const std::string& path : paths_) {
      std::uint64_t length = 0;
      const std::size_t head = 1 + sizeof(length);
      if (rest.size() >= head) std::memcpy(&length, rest.data() + 1, sizeof(length));
      if (rest.size() < head || length > rest.size() - head) ended(path, status);
      const std::string_view message = rest.substr(head, length);
      if (rest[0] != 'i') throw Error(ExitCode::data, std::string(message));
      std::vector<FileIndex> parsed = parse_indexes(message);
      if (parsed.size() != 1 || parsed.front().path != path) ended(path, status);
      to.push_back(std::move(parsed.front()));
      rest.remove_prefix(head + length);
    }
  }

 private:
  void start() {
    posix_spawn_file_actions_t files;
    if (::posix_spawn_file_actions_init(&files) != 0) system_failed("posix_spawn", "an index");
    ::posix_spawn_file_actions_adddup2(&files, input_.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&files, output_.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    // Nothing else of this process, such as MPI's sockets.
    ::posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    std::string variable = std::string(child_variable) + "=1";
    std::string name = "trireme-hdf5-index";
    std::vector<char*> environment{variable.data()};
    for (char** each = ::environ; *each != nullptr; ++each)
      environment.push_back(*each);
    environment.push_back(nullptr);
    char* const arguments[] = {name.data(), nullptr};
    errno =
        ::posix_spawn(&process_, "/proc/self/exe", &files, nullptr, arguments, environment.data());
    ::posix_spawn_file_actions_destroy(&files);
    if (errno != 0) {
      process_ = -1;
      system_failed("posix_spawn", "/proc/self/exe");
    }
  }

  int wait() {
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0) {
      if (errno != EINTR) system_failed("waitpid", "the process that reads HDF5 metadata");
    }
    process_ = -1;
    return status;
  }

  [[noreturn]] static void ended(const std::string& path, int status) {
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      fail(
          ExitCode::data,
          "{}: reading what it says of itself ended the HDF5 library by signal {} ({}{}): the file "
          "is damaged, or made to do harm",
          path, signal, ::strsignal(signal), signal == SIGXCPU ? ", after 60 s" : "");
    }
    fail(ExitCode::data, "{}: the process that reads HDF5 metadata ended with code {} at this file",
         path, WIFEXITED(status) ? WEXITSTATUS(status) : status);
  }

  std::span<const std::string> paths_;
  FileDescriptor input_, output_;
  pid_t process_ = -1;
};

}  // namespace

std::vector<FileIndex> scan_in_children(std::span<const std::string> paths,
                                        const ScanRequest& request, std::size_t processes) {
  constexpr std::size_t worth_a_process = 16;  // files
  for (const std::string& path : paths) {
    if (path.find('\n') != std::string::npos)
      fail(ExitCode::data, "{}: a line feed in the name of a file", path);
  }
  const std::size_t count = std::clamp<std::size_t>(paths.size() / worth_a_process, 1,
                                                    std::max<std::size_t>(processes, 1));
  std::vector<std::unique_ptr<Child>> children;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = paths.size() * i / count, end = paths.size() * (i + 1) / count;
    if (first < end)
      children.push_back(std::make_unique<Child>(paths.subspan(first, end - first), request));
  }
  std::vector<FileIndex> indexes;
  for (const auto& child : children)
    child->collect(indexes);
  return indexes;
}

}  // namespace trireme
