// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace trireme {
namespace {

constexpr std::string_view hidden = "***";

// A name, or a prefix followed by *.
constexpr std::array recorded = {
    // Placement of ranks.
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_NODE_RANK", "OMPI_UNIVERSE_SIZE", "RANK",
    "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    // Communication.
    "OMPI_MCA_btl", "OMPI_MCA_btl_*", "OMPI_MCA_pml", "OMPI_MCA_pml_*", "OMPI_MCA_mtl",
    "OMPI_MCA_coll", "OMPI_MCA_coll_*", "OMPI_MCA_oob_tcp_*", "OMPI_MCA_mpi_*",
    "OMPI_MCA_rmaps_base_*", "OMPI_MCA_hwloc_base_*", "UCX_TLS", "UCX_NET_DEVICES", "FI_PROVIDER",
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX", "NCCL_NET_GDR_LEVEL", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL",
    "NCCL_SHM_DISABLE", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS", "NCCL_NVLS_ENABLE", "NCCL_BUFFSIZE", "NCCL_NTHREADS", "NCCL_TOPO_FILE",
    // Compute.
    "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_DYNAMIC", "OMP_SCHEDULE",
    "OMP_WAIT_POLICY", "DNNL_VERBOSE", "DNNL_MAX_CPU_ISA", "DNNL_CPU_ISA_HINTS",
    "DNNL_PRIMITIVE_CACHE_CAPACITY", "DNNL_DEFAULT_FPMATH_MODE", "ONEDNN_VERBOSE",
    "ONEDNN_MAX_CPU_ISA", "ONEDNN_CPU_ISA_HINTS", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE", "MALLOC_ARENA_MAX",
    // Allocation of the batch system.
    "SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_QOS",
    "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_JOB_CPUS_PER_NODE", "SLURM_JOB_GPUS",
    "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME", "SLURM_RESTART_COUNT", "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID", "SLURM_NNODES", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE", "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "SLURM_GPUS",
    "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE", "SLURM_CPU_BIND", "SLURM_DISTRIBUTION",
    "SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID",
    // Trireme.
    "TRIREME_LOG", "TRIREME_INTERFACE", "TRIREME_TCP_RETRIES", "TRIREME_END_SECONDS",
    "TRIREME_GRACE_SECONDS", "TRIREME_START_SECONDS", "TRIREME_JOB_ID", "TRIREME_LAUNCHER",
    "TRIREME_BINARY", "TRIREME_HDF5_SECONDS"};

bool is_secret_name(std::string_view name) {
  constexpr std::array words = {"passw",   "passphrase", "secret",   "token",  "credential",
                                "auth",    "cookie",     "jwt",      "apikey", "api_key",
                                "api-key", "private",    "signature"};
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(
      words, [&](const char* word) { return lower.find(word) != std::string::npos; });
}

constexpr std::string_view blanks = " \t\n\"'";

// The user part of URLs; a password may have any letters.
void hide_users_of_urls(std::string& text) {
  constexpr std::string_view mark = "://";
  for (std::size_t url = text.find(mark); url != std::string::npos;
       url = text.find(mark, url + mark.size())) {
    const std::size_t begin = url + mark.size();
    const std::size_t end = std::min(text.find_first_of(blanks, url), text.size());
    const std::size_t at = text.rfind('@', end - 1);
    if (at != std::string::npos && at > begin) text.replace(begin, at - begin, hidden);
  }
}

// user:password@ of addresses that are no URLs: a colon and an at sign in one word, with no slash
// in between.
void hide_users(std::string& text) {
  for (std::size_t at = text.find('@'); at != std::string::npos; at = text.find('@', at + 1)) {
    const std::size_t before = text.find_last_of(" \t\n\"'/,=", at);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    if (text.find(':', begin) >= at) continue;
    text.replace(begin, at - begin, hidden);
    at = begin + hidden.size();
  }
}

// The query of URLs.
void hide_queries(std::string& text) {
  for (std::size_t url = text.find("://"); url != std::string::npos;
       url = text.find("://", url + 1)) {
    const std::size_t end = std::min(text.find_first_of(blanks, url), text.size());
    const std::size_t query = text.find('?', url);
    if (query < end) text.replace(query + 1, end - query - 1, hidden);
  }
}

// The value of every name=value or name: value with a secret name.
void hide_values(std::string& text) {
  for (std::size_t sign = text.find_first_of("=:"); sign != std::string::npos;
       sign = text.find_first_of("=:", sign + 1)) {
    const std::size_t before = text.find_last_of(" \t\n\"',{&?", sign);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    if (!is_secret_name(std::string_view(text).substr(begin, sign - begin))) continue;
    const std::size_t value = text.find_first_not_of(" ", sign + 1);
    if (value == std::string::npos) return;
    const std::size_t end = std::min(text.find_first_of(" \t\n,}&", value), text.size());
    text.replace(value, end - value, hidden);
  }
}

// Whether a secret follows the option `option` of `program`.
bool announces_secret(std::string_view option, std::string_view program) {
  if (option == "-p") return program.ends_with("sshpass");
  return option.starts_with('-') && option.find('=') == std::string_view::npos &&
         is_secret_name(option);
}

// The words of an argument that contains a command.
std::string within(const std::string& text) {
  std::string result, program, option;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    const std::string word = text.substr(at, end - at);
    const bool attached = option.ends_with("sshpass") && word.starts_with("-p") && word != "-p";
    if (!word.empty() && attached) {
      result += "-p" + std::string(hidden);
    } else {
      result += !word.empty() && announces_secret(option, program) ? std::string(hidden) : word;
    }
    if (!word.empty()) {
      program = std::move(option);
      option = word;
    }
    if (end < text.size()) result += text[end];
    at = end + 1;
  }
  return result;
}

}  // namespace

bool may_be_recorded(std::string_view variable) {
  const auto listed = [variable](std::string_view name) {
    return name.ends_with('*') ? variable.starts_with(name.substr(0, name.size() - 1))
                               : variable == name;
  };
  return std::ranges::any_of(recorded, listed) && !is_secret_name(variable);
}

std::string without_secrets(std::string_view text) {
  std::string result = within(std::string(text));
  hide_users_of_urls(result);
  hide_users(result);
  hide_queries(result);
  hide_values(result);
  return result;
}

std::vector<std::string> without_secrets(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool secret = i > 0 && announces_secret(words[i - 1], i > 1 ? words[i - 2] : "");
    const bool attached = i > 0 && words[i - 1].ends_with("sshpass") &&
                          words[i].starts_with("-p") && words[i] != "-p";
    result.push_back(secret     ? std::string(hidden)
                     : attached ? "-p" + std::string(hidden)
                                : without_secrets(words[i]));
  }
  return result;
}

}  // namespace trireme
