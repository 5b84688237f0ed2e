// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <thread>

#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/base/process.h"
#include "runtime/base/terminal.h"
#include "runtime/comm/host/end_of_job.h"
#include "runtime/comm/host/host_communicator.h"
#include "runtime/comm/host/mpi_check.h"
#include "runtime/comm/host/mpi_transfers.h"
#include "runtime/comm/host/tcp/tcp_place.h"
#include "runtime/comm/host/tcp/tcp_transfers.h"
#include "runtime/comm/host/transfers.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/comm/watchdog/start_watch.h"

namespace trireme {
namespace {

constexpr unsigned abort_patience_s = 10;
// How long ranks of a job that ends with a code wait for each other.
constexpr std::chrono::seconds patience_at_the_end{5};

std::atomic<void (*)() noexcept> abort_hook = nullptr;
// Set before MPI_Init, which may never return.
std::atomic<bool> mpi_was_started = false;

// Set by the launchers of MPI libraries: mpirun of Open MPI and MPICH, srun with a PMI.
bool has_launcher() {
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK",
                                 "PMI_SIZE", "PMI_FD", "MPI_LOCALNRANKS"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

// Otherwise each rank would take itself for the whole job and write to the same run directory.
void require_connected_ranks() {
  const int started = launched_ranks().value_or(1);
  if (started <= 1) return;
  throw SharedError(
      ExitCode::communication,
      fmt::format("{} processes were started by a launcher that this program's MPI library does "
                  "not support, so they cannot find each other; use its own mpirun, or srun "
                  "--mpi=pmix (srun --mpi=list)",
                  started));
}

// All other groups are copies, so nothing else sends messages in this one.
std::unique_ptr<Transfers> notes_of_all_ranks() {
  auto all = std::make_unique<MpiTransfers>(MPI_COMM_WORLD);
  all->abandon();  // not ours to free
  return all;
}

// The connections of a job without MPI; the groups of all ranks are made from one.
struct TcpJob {
  explicit TcpJob(const TcpPlace& place) : mesh(place.rank, tcp_connect_all(place)), world(mesh) {}
  TcpMesh mesh;
  TcpTransfers world;
};

std::unique_ptr<TcpJob> tcp_job;  // one per process, like MPI

// Equal for processes of one host, and only for those.
std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return boot + host_name();
}

}  // namespace

MpiEnvironment::MpiEnvironment(int* argc, char*** argv) : watch_(std::make_unique<StartWatch>()) {
  if (has_launcher()) {
    launcher_ = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr ? "mpirun" : "srun";
    start_mpi(argc, argv);
  } else if (tcp_place()) {
    launcher_ = "RANK and WORLD_SIZE";
    start_tcp();
  }
  if (size_ == 1) require_connected_ranks();
}

void MpiEnvironment::start_mpi(int* argc, char*** argv) {
  int provided = MPI_THREAD_SINGLE;
  mpi_was_started = true;
  // For a start that does not complete.
  if (const auto rank = launched_rank(), ranks = launched_ranks(); rank && ranks && *rank < *ranks)
    set_process_label(*rank, *ranks);
  {
    const StartWait wait("MPI_Init", StartWait::Stage::mpi_init);
    TRIREME_MPI(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided));
  }
  restore_hangup();
  TRIREME_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  TRIREME_MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  if (provided < MPI_THREAD_MULTIPLE) {
    fail(ExitCode::communication,
         "this MPI library has thread level {}, below MPI_THREAD_MULTIPLE ({}); use one that is "
         "built with threads",
         provided, static_cast<int>(MPI_THREAD_MULTIPLE));
  }
  TRIREME_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  TRIREME_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size_));
  watch_->ask_over(notes_of_all_ranks());
  const StartWait wait("finding the ranks of this host");
  MPI_Comm host = MPI_COMM_NULL;
  TRIREME_MPI(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host));
  TRIREME_MPI(MPI_Comm_rank(host, &local_rank_));
  TRIREME_MPI(MPI_Comm_size(host, &local_size_));
  int first = rank_;
  TRIREME_MPI(MPI_Bcast(&first, 1, MPI_INT, 0, host));
  hosts_.resize(static_cast<std::size_t>(size_));
  TRIREME_MPI(MPI_Allgather(&first, 1, MPI_INT, hosts_.data(), 1, MPI_INT, MPI_COMM_WORLD));
  TRIREME_MPI(MPI_Comm_free(&host));
}

void MpiEnvironment::start_tcp() {
  const TcpPlace place = *tcp_place();
  rank_ = place.rank;
  size_ = place.size;
  set_process_label(rank_, size_);  // for errors before the ranks are connected
  log::initialize(rank_);
  {
    // The rendezvous has the deadline itself and a better message.
    constexpr double later = 20;
    const StartWait wait("the rendezvous", StartWait::Stage::rendezvous,
                         place.patience_seconds > 0 ? place.patience_seconds + later : 0);
    tcp_job = std::make_unique<TcpJob>(place);
  }
  watch_->ask_over(tcp_job->world.duplicate());
  const StartWait wait("finding the ranks of this host");
  const auto hosts = gather_texts(*world(), host_identity());
  hosts_.clear();
  for (const std::string& host : hosts)
    hosts_.push_back(static_cast<int>(std::ranges::find(hosts, host) - hosts.begin()));
  const auto own = hosts.begin() + rank_;
  local_rank_ = static_cast<int>(std::count(hosts.begin(), own, *own));
  local_size_ = static_cast<int>(std::count(hosts.begin(), hosts.end(), *own));
}

MpiEnvironment::~MpiEnvironment() {
  // A rank that unwinds must not wait in MPI_Finalize for peers that wait for it: abort_job is
  // next.
  if (std::uncaught_exceptions() > 0) return;
  watch_->ask_over(nullptr);  // MPI_Finalize ends its messages
  const StartWait wait("MPI_Finalize");
  tcp_job.reset();
  if (detail::mpi_is_up() && MPI_Finalize() != MPI_SUCCESS)
    log::get("comm").warn("MPI_Finalize failed");
}

std::unique_ptr<Communicator> MpiEnvironment::world() const {
  if (size_ == 1) return make_single_communicator();
  const StartWait wait("making a group of all ranks");
  return std::make_unique<HostCommunicator>(make_job_transfers(), "world");
}

std::unique_ptr<Transfers> make_job_transfers() {
  if (tcp_job) return tcp_job->world.duplicate();
  if (!detail::mpi_is_up()) return nullptr;
  MPI_Comm copy = MPI_COMM_NULL;
  TRIREME_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  return std::make_unique<MpiTransfers>(copy);
}

void print_error(const std::string& whole) noexcept {
  const std::string text = for_people(whole);
  const std::string line =
      fmt::format("{}[{}] error: {}\n", line_start(STDERR_FILENO), process_label(), text);
  log::keep(spdlog::level::err, "job", text);
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
}

void set_abort_hook(void (*hook)() noexcept) noexcept {
  abort_hook = hook;
}

void arm_last_resort(unsigned seconds, int code) noexcept {
  static std::atomic<int> last_code;
  last_code = code;
  std::signal(SIGALRM, [](int) { _exit(last_code); });
  alarm(seconds);
  sigevent kill{};  // a thread inside a driver may not come to a handler
  kill.sigev_signo = SIGKILL;
  const itimerspec later{.it_interval = {}, .it_value = {.tv_sec = seconds + 3, .tv_nsec = 0}};
  if (timer_t timer{}; timer_create(CLOCK_MONOTONIC, &kill, &timer) == 0)
    static_cast<void>(timer_settime(timer, 0, &later, nullptr));
}

void abort_job(int code) noexcept {
  static std::atomic_flag entered = ATOMIC_FLAG_INIT;
  if (entered.test_and_set()) {
    for (;;)
      pause();  // another thread is already ending the job
  }
  std::fflush(stdout);
  std::fflush(stderr);
  arm_last_resort(abort_patience_s, code);
  if (detail::mpi_is_up()) std::this_thread::sleep_for(time_to_read_output);
  if (auto* const hook = abort_hook.load()) hook();
  if (detail::mpi_is_up()) detail::abort_mpi(code);
  if (tcp_job) tcp_job->mesh.abort(code);
  if (!mpi_was_started) detail::abort_before_mpi(code);
  _exit(code);
}

int end_job_alike(int code) noexcept {
  // srun prints no banner, and gives an aborted job its own code.
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr || !detail::mpi_is_up()) return code;
  MPI_Request all = MPI_REQUEST_NULL;
  int rank = 0, here = 0;
  static_cast<void>(MPI_Comm_rank(MPI_COMM_WORLD, &rank));  // unchecked: the job ends either way
  const auto until = std::chrono::steady_clock::now() + patience_at_the_end;
  if (MPI_Ibarrier(MPI_COMM_WORLD, &all) == MPI_SUCCESS) {
    while (MPI_Test(&all, &here, MPI_STATUS_IGNORE) == MPI_SUCCESS && here == 0 &&
           std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // One rank is enough to end the others.
  if (rank != 0) std::this_thread::sleep_for(patience_at_the_end);
  abort_job(code);
}

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  TRIREME_MPI(MPI_Get_library_version(text.data(), &length));
  const std::string whole(text.data(), static_cast<std::size_t>(length));
  return whole.substr(0, whole.find(','));  // "Open MPI v4.1.4"
}

}  // namespace trireme
