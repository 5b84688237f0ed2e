// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/cudnn_graphs.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "runtime/device/cuda_slot.h"
#include "runtime/device/work_log.h"
#include "runtime/ops/common/plan_table.h"

namespace trireme::ops::cuda {
namespace {

// Kernel counts as in profiles of cuDNN 9: attention's backward is three kernels (row sums of dout
// * out, the products, dq rounded from f32), everything else one.
class CountedPlan final : public CudnnPlan {
 public:
  explicit CountedPlan(const CudnnGraph& graph) {
    if (const auto* const attention = std::get_if<AttentionGraph>(&graph)) {
      const bool forward = attention->pass == AttentionGraph::Pass::forward;
      name_ = forward ? "cudnn attention forward" : "cudnn attention backward";
      kernels_ = forward ? 1 : 3;
      result_ = attention->part.f32 ? DType::f32 : attention->dtype;
    } else {
      name_ = "cudnn convolution";
      result_ = std::get<ConvolutionGraph>(graph).result;
    }
  }

  [[nodiscard]] std::size_t workspace_bytes() const override { return 0; }
  [[nodiscard]] DType result() const override { return result_; }
  void run(Stream& /*stream*/, std::span<void* const> /*operands*/,
           void* /*workspace*/) const override {
    if (WorkLog* const log = WorkLog::current()) log->note(WorkKind::library, name_, 0, kernels_);
  }

 private:
  std::string name_;
  int kernels_ = 1;
  DType result_ = DType::f32;
};

const CudnnPlan* counted_plan(const CudnnGraph& graph) {
  const auto* const attention = std::get_if<AttentionGraph>(&graph);
  if (attention != nullptr && attention->soft_cap > 0) return nullptr;
  static std::mutex mutex;
  static std::map<CudnnGraph, CountedPlan> plans;
  const std::lock_guard lock(mutex);
  return &plans.try_emplace(graph, graph).first->second;
}

// Whether backward keeps the score matrices' gradients, of `bytes`, to add them up in a fixed
// order. Blackwell has another order; Hopper keeps them up to a limit of cudnn-frontend's (see
// device/gpu_facts.h).
bool keeps_scores(std::int64_t bytes, int compute_capability) {
  if (compute_capability / 10 != 9) return compute_capability < 90;
  const char* const limit = std::getenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT");
  return limit == nullptr || std::atoll(limit) < 0 || bytes <= std::atoll(limit);
}

}  // namespace

std::size_t cudnn_workspace_bytes(const AttentionGraph& a, int compute_capability) {
  constexpr std::int64_t single = 4, half = 2, tile = 64, constant = 1 << 15;
  const std::int64_t sequences = a.sequences > 0 ? a.sequences : a.batch;
  // Per sequence of a ragged batch: descriptors of its parts of the tensors.
  const std::int64_t fixed = a.sequences > 0 ? constant + 512 * sequences : constant;
  if (a.pass == AttentionGraph::Pass::forward) return static_cast<std::size_t>(fixed);
  const std::int64_t queries = a.part.queries > 0 ? a.part.queries : a.length;
  const std::int64_t tiles = (queries + tile - 1) / tile, positions = a.batch * queries;
  const std::int64_t width = (a.length + 2 * tile - 1) / (2 * tile) * 2 * tile;  // of keys
  const std::int64_t scores = sequences * a.heads * tiles * tile * width * half;
  const bool blackwell = compute_capability >= 100;
  const bool kept = a.deterministic && keeps_scores(scores, compute_capability);
  // f32 sums of dq have the layout of dq: ragged ones lie as far apart as rows of the projection.
  const std::int64_t apart = a.sequences > 0 ? a.heads + 2 * a.kv_heads : a.heads;
  const std::int64_t sums = positions * apart * a.size * single;
  std::int64_t bytes = fixed + positions * a.heads * single;  // row sums of dout * out
  if (kept) {
    bytes += scores;
  } else if (!(a.deterministic && blackwell)) {
    bytes += sums * (compute_capability < 90 ? 2 : 1);
  }
  if (a.deterministic && !kept) bytes += sequences * a.heads * tiles * 8;  // whose turn it is
  // dk and dv of every query head, where heads share keys.
  if (a.kv_heads < a.heads) {
    const std::int64_t element = blackwell && a.deterministic ? single : half;
    bytes += a.sequences > 0 ? 2 * sums * (a.heads / a.kv_heads)
                             : 2 * a.batch * a.length * a.heads * a.size * element;
  }
  return static_cast<std::size_t>(bytes);
}

std::size_t plan_hash(const CudnnGraph& graph) {
  PlanHash hash;
  if (const auto* const a = std::get_if<AttentionGraph>(&graph)) {
    hash.add(a->pass, a->dtype, a->batch, a->length, a->heads, a->kv_heads, a->size, a->causal,
             a->window, a->scale * 65536, a->soft_cap * 1024, a->deterministic, a->sequences,
             a->part.queries, a->part.rows, a->part.positions, a->part.heads, a->part.f32);
  } else {
    const auto& c = std::get<ConvolutionGraph>(graph);
    const ConvolutionGeometry& g = c.geometry;
    hash.add(c.pass, c.dtype, c.result, c.tf32, c.workspace_limit, c.adds, g.batch, g.in, g.out,
             g.groups);
    for (const WindowAxis* const a : {&g.axes.depth, &g.axes.height, &g.axes.width})
      hash.add(a->extent, a->window, a->stride, a->padding, a->dilation);
  }
  return hash.value();
}

std::string cudnn_version() {
  const auto version = cuda_slot<&cudnn_version>;
  return version != nullptr ? version() : std::string();
}

const CudnnPlan* cudnn_plan(const CudnnGraph& graph) {
  const auto plan = cuda_slot<&cudnn_plan>;
  return plan != nullptr ? plan(graph) : nullptr;
}

const CudnnPlan* cudnn_plan_for(const Stream& stream, const CudnnGraph& graph) {
  struct ThreadPlans {
    const Device* device = nullptr;
    PlanTable<CudnnGraph, const CudnnPlan*> table;
  };
  static thread_local ThreadPlans mine;
  if (const Device* const device = &stream.device(); mine.device != device) {
    mine.table.clear();
    mine.device = device;
  }
  if (const CudnnPlan* const* const found = mine.table.find(graph)) return *found;
  const CudnnPlan* const plan =
      stream.device().execution() == Execution::run ? cudnn_plan(graph) : counted_plan(graph);
  return mine.table.insert(graph, std::make_unique<const CudnnPlan*>(plan));
}

}  // namespace trireme::ops::cuda
