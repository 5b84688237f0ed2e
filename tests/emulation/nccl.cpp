// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/include/nccl.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulation/contracts.h"
#include "tests/emulation/machine.h"
#include "tests/emulation/nccl_rendezvous.h"
#include "tests/emulation/waits.h"

namespace trireme::emulated {

// State that a background job of the library shares with the communicator; either may end first.
struct NcclState {
  std::string name;
  NcclTransport transport;
  int device = 0;
  std::mutex mutex;  // of all below
  NcclConnections connections;
  bool connecting = false;  // to a peer that the pending calls need
  ncclResult_t result = ncclInProgress;
  std::vector<NcclOp> pending;  // issued, not on a stream yet
  int polls_left = 0;
  int calls = 0;
  int most_ctas = 0;
  bool finalizing = false;
};

struct NcclComm {
  std::shared_ptr<NcclState> state = std::make_shared<NcclState>();
};

namespace {

constexpr int old_version = 22703;
constexpr int polls_of_first_call = 4;  // it connects to its peers
constexpr int polls_of_call = 2;
// Of an H100 with NVSwitch: channels of collectives, and NCCL's own limit.
constexpr int channels = 24, most_channels = 64;
constexpr int streams_of_communicator = 2;  // sharedRes->hostStream and deviceStream

std::mutex last_problem_mutex;
std::array<char, 256> last_problem{};

ncclResult_t report(ncclResult_t result, const std::string& text) {
  const std::lock_guard lock(last_problem_mutex);
  last_problem[text.copy(last_problem.data(), last_problem.size() - 1)] = '\0';
  return result;
}

void conclude(NcclState& state, ncclResult_t result) {
  const std::lock_guard lock(state.mutex);
  state.result = result;
}

void adopt(NcclTransport& transport, MPI_Comm comm) {
  transport.comm = comm;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm, &transport.rank);
  MPI_Comm_size(comm, &transport.size);
}

// As in the library: host and GPU of a rank.
struct PeerInfo {
  std::array<char, 112> host{};
  std::array<char, 16> bus{};
};

ncclResult_t check_peers(const NcclTransport& transport, int device) {
  PeerInfo own;
  const char* const id = std::getenv("NCCL_HOSTID");
  if (id != nullptr) {
    std::string(id).copy(own.host.data(), own.host.size() - 1);
  } else {
    gethostname(own.host.data(), own.host.size() - 1);
  }
  cudaDeviceGetPCIBusId(own.bus.data(), static_cast<int>(own.bus.size()), device);
  std::vector<PeerInfo> all(static_cast<std::size_t>(transport.size));
  MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, transport.comm);
  for (int peer = 0; peer < transport.size; ++peer) {
    const PeerInfo& other = all[static_cast<std::size_t>(peer)];
    if (peer == transport.rank || other.host != own.host || other.bus != own.bus) continue;
    return report(ncclInvalidUsage,
                  "Duplicate GPU detected : rank " + std::to_string(transport.rank) + " and rank " +
                      std::to_string(peer) + " both on CUDA device " + own.bus.data());
  }
  return ncclSuccess;
}

bool fails_on_purpose(const NcclState& state) {
  const char* const wanted = std::getenv("TRIREME_EMULATED_NCCL_ERROR");
  if (wanted == nullptr) return false;
  const std::string call = state.name + ":" + std::to_string(state.calls);
  return call == wanted || call + ":" + std::to_string(state.transport.rank) == wanted;
}

// Work on a stream or in a graph: while there is any, the communicator cannot end.
class Held {
 public:
  explicit Held(std::shared_ptr<NcclState> state) : state_(std::move(state)) {
    ++state_->transport.work;
  }
  ~Held() { --state_->transport.work; }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  std::shared_ptr<NcclState> state_;
};

// The library allocates connection memory, on a background thread.
void connect_in_background(const std::shared_ptr<NcclState>& state, std::vector<NcclSetup> setups) {
  state->connecting = true;
  std::thread([state, setups = std::move(setups)] {
    pthread_setname_np(pthread_self(), "NCCL");
    cudaSetDevice(state->device);
    wait_for_device("NCCL, which allocates memory to connect to a peer,");
    const ncclResult_t result = connect(state->transport, state->name, setups);
    if (result == ncclInProgress) return;
    const std::lock_guard lock(state->mutex);
    state->connecting = false;
    if (result == ncclSuccess) return;
    state->pending.clear();
    state->result = report(result, "Message truncated: a peer connects for something else");
  }).detach();
}

// false: as the library refuses it.
bool take_config(NcclState& state, const ncclConfig_t& config) {
  if (config.minCTAs < 0 || config.maxCTAs < 0 ||
      (config.maxCTAs > 0 && config.minCTAs > config.maxCTAs))
    return false;
  const int most = config.maxCTAs > 0 ? std::min(config.maxCTAs, most_channels) : most_channels;
  state.most_ctas = std::max(std::min(channels, most), config.minCTAs);
  return true;
}

// Thread blocks: of a message, a power of two that every rank can have (scheduleP2pTasksToPlan).
int ctas_of(const NcclState& state, const std::vector<NcclOp>& ops) {
  const bool message = std::ranges::all_of(ops, [](const NcclOp& op) {
    return op.kind == NcclOp::Kind::send || op.kind == NcclOp::Kind::recv;
  });
  if (!message) return state.most_ctas;
  const unsigned all = std::bit_ceil(static_cast<unsigned>(state.most_ctas));
  unsigned each = all;
  while (each > 1 && each * static_cast<unsigned>(state.transport.size) > all)
    each /= 2;
  return static_cast<int>(each);
}

// The work of the library's thread, done by the polling thread.
void launch(const std::shared_ptr<NcclState>& state) {
  const cudaStream_t stream = state->pending.front().stream;
  if (captures(stream) && Machine::get().fault == "no_nccl_capture") {
    state->pending.clear();
    state->transport.error = report(ncclUnhandledCudaError, "cudaMallocAsync: not supported");
    return;
  }
  const bool failing = fails_on_purpose(*state);
  const int ctas = ctas_of(*state, state->pending);
  enqueue(stream, [state, held = std::make_shared<Held>(state), ops = std::move(state->pending),
                   failing, ctas] {
    if (failing) {
      report(ncclRemoteError, "injected: the connection to a peer is gone");
      state->transport.error = ncclRemoteError;
      wait_for_abort(state->transport);
    } else {
      const HeldProcessors held_processors(ctas);
      run_nccl_kernel(state->transport, state->name, ops);
    }
  });
  state->pending.clear();
}

thread_local int group_depth = 0;
thread_local std::vector<std::pair<ncclComm_t, NcclOp>> group_ops;
thread_local ncclResult_t group_error = ncclSuccess;

const std::byte* source(const void* data) {
  return static_cast<const std::byte*>(data);
}
std::byte* target(void* data) {
  return static_cast<std::byte*>(data);
}

ncclResult_t add(ncclComm_t comm, const NcclOp& op) {
  NcclState& state = *comm->state;
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(state.mutex);
    if (state.result != ncclSuccess || state.finalizing) {
      result = report(ncclInvalidArgument,
                      "Attempt to use communicator before the previous operation returned "
                      "ncclSuccess");
    }
  }
  if (op.stream == nullptr || nccl_size_of(op.type) == 0 || op.op >= ncclNumOps)
    result = report(ncclInvalidArgument, "invalid stream, type or operation");
  if (op.peer >= state.transport.size) result = report(ncclInvalidArgument, "no such peer or root");
  if (result != ncclSuccess) {
    group_error = result;
    return result;
  }
  if (op.count > 0) group_ops.emplace_back(comm, op);
  return group_depth > 0 ? ncclSuccess : (++group_depth, ncclGroupEnd());
}

}  // namespace
}  // namespace trireme::emulated

using namespace trireme::emulated;

ncclResult_t ncclGetVersion(int* version) {
  *version = Machine::get().fault == "old_nccl" ? old_version : NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "internal error";
  }
}

const char* ncclGetLastError(ncclComm_t /*comm*/) {
  return last_problem.data();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  nccl_called("ncclGetUniqueId");
  *id = {};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::string text = std::to_string(getpid()) + "_" + std::to_string(now);
  text.copy(id->internal, sizeof id->internal - 1);
  return ncclSuccess;
}

namespace {

// An id begins with the process that made it.
bool from_different_ranks(const std::vector<ncclUniqueId>& ids) {
  std::set<std::string> makers;
  for (const ncclUniqueId& id : ids) {
    const std::string text = id.internal;
    makers.insert(text.substr(0, text.find('_')));
  }
  return makers.size() == ids.size() && !makers.contains("");
}

}  // namespace

ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int id_count,
                                      ncclUniqueId* ids, ncclConfig_t* config) {
  nccl_called("ncclCommInitRankScalable");
  if (id_count < 1 || id_count > ranks || !from_different_ranks({ids, ids + id_count}))
    return report(ncclInvalidArgument, "an id of each root, and no more roots than ranks");
  const ncclUniqueId& id = ids[0];
  int world_ranks = 0, world_rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &world_ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  if (ranks != world_ranks || rank != world_rank || config->blocking != 0 || id.internal[0] == 0)
    return report(ncclInvalidArgument, "not the emulator's kind of communicator");
  *comm = new NcclComm;
  const auto state = (*comm)->state;
  if (!take_config(*state, *config)) return report(ncclInvalidArgument, "minCTAs, maxCTAs");
  state->name = config->commName;
  make_library_streams(streams_of_communicator);
  cudaGetDevice(&state->device);
  join_job(id.internal, rank, ranks);
  std::thread([state] {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    adopt(state->transport, copy);
    const ncclResult_t result = check_peers(state->transport, state->device);
    release_job_name();
    conclude(*state, result);
  }).detach();
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part,
                           ncclConfig_t* config) {
  nccl_called("ncclCommSplit");
  const auto parent = comm->state;
  {
    const std::lock_guard lock(parent->mutex);
    if (parent->result != ncclSuccess) return report(ncclInvalidArgument, "not ready to be split");
    parent->result = ncclInProgress;
  }
  *part = color == NCCL_SPLIT_NOCOLOR ? nullptr : new NcclComm;
  const auto child = *part == nullptr ? nullptr : (*part)->state;
  if (child != nullptr) {
    child->name = config == nullptr ? parent->name : config->commName;
    if (!take_config(*child, *config)) return report(ncclInvalidArgument, "minCTAs, maxCTAs");
    child->device = parent->device;
    make_library_streams(streams_of_communicator);
  }
  std::thread([parent, child, color, key] {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Comm_split(parent->transport.comm, child == nullptr ? MPI_UNDEFINED : color, key, &made);
    if (child != nullptr) {
      adopt(child->transport, made);
      conclude(*child, ncclSuccess);
    }
    conclude(*parent, ncclSuccess);
  }).detach();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  const auto state = comm->state;
  const std::lock_guard lock(state->mutex);
  if (const int error = state->transport.error; error != ncclSuccess)
    state->result = static_cast<ncclResult_t>(error);
  if (!state->pending.empty() && !state->connecting && --state->polls_left <= 0) {
    launch(state);
    const int error = state->transport.error;
    state->result = static_cast<ncclResult_t>(error);
  }
  if (state->finalizing && state->transport.work == 0) state->result = ncclSuccess;
  *result = state->result;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::lock_guard lock(comm->state->mutex);
  if (comm->state->result != ncclSuccess) return report(ncclInvalidArgument, "not ready to end");
  comm->state->finalizing = true;
  comm->state->result = ncclInProgress;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->state->transport.work != 0) return report(ncclInvalidUsage, "calls are on their way");
  MPI_Comm_free(&comm->state->transport.comm);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->state->transport.aborted = true;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return report(ncclInvalidUsage, "ncclGroupEnd: not in a group call");
  if (--group_depth > 0) return ncclSuccess;
  std::map<ncclComm_t, std::vector<NcclOp>> calls;
  for (auto& [comm, op] : std::exchange(group_ops, {}))
    calls[comm].push_back(op);
  if (const auto error = std::exchange(group_error, ncclSuccess); error != ncclSuccess)
    return error;
  for (auto& [comm, ops] : calls) {
    NcclState& state = *comm->state;
    const std::lock_guard lock(state.mutex);
    state.polls_left = state.calls++ == 0 ? polls_of_first_call : polls_of_call;
    state.pending = std::move(ops);
    state.result = ncclInProgress;
    progress();
    if (!holds(Contract::rendezvous)) continue;
    auto setups = state.connections.add(state.transport, state.pending);
    if (!setups.empty()) connect_in_background(comm->state, std::move(setups));
  }
  return calls.empty() ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add(comm,
             {NcclOp::Kind::all_reduce, source(in), target(out), count, type, op, -1, stream});
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t out_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return add(comm, {NcclOp::Kind::reduce_scatter, source(in), target(out), out_count, type, op, -1,
                    stream});
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t in_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {NcclOp::Kind::all_gather, source(in), target(out), in_count, type, ncclSum, -1,
                    stream});
}

ncclResult_t ncclAlltoAll(const void* in, void* out, std::size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  return add(comm,
             {NcclOp::Kind::all_to_all, source(in), target(out), count, type, ncclSum, -1, stream});
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add(
      comm, {NcclOp::Kind::broadcast, source(in), target(out), count, type, ncclSum, root, stream});
}

ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {NcclOp::Kind::send, source(in), nullptr, count, type, ncclSum, peer, stream});
}

ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, {NcclOp::Kind::recv, nullptr, target(out), count, type, ncclSum, peer, stream});
}
