// SPDX-License-Identifier: Apache-2.0
// A model is a chain of layers. A Chain describes how to make each layer; a Model is the part that
// one rank holds: runs of layers ("chunks"), their parameters, and the memory of the micro-batches
// in flight.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/nn/layer_graphs.h"

namespace trireme {
namespace ops {
struct BoxCopy;
}

struct ChainLayer {
  // Declares the layer on the blueprint, whose input() is the previous layer's output.
  std::function<std::unique_ptr<Layer>(Blueprint&)> make;
  bool block = false;  // one of the repeated blocks: what full recomputation recomputes

  // The layer behind one with this output.
  [[nodiscard]] std::unique_ptr<Layer> declare(Blueprint& blueprint, const Shape& input,
                                               const LayerDepth& depth = {}) const;
};
using Chain = std::vector<ChainLayer>;
// Layers before the blocks have depth 0, block i of L has i, and what follows L + 1: LayerDepth
// counts from the end.
[[nodiscard]] LayerDepth depth_of(const Chain& chain, std::size_t i);

// A layer L, made of the blueprint and `args`, inside its scope.
template <typename L, typename... Args>
[[nodiscard]] ChainLayer in_scope(const std::string& scope_name, const Args&... args) {
  return {.make = [=](Blueprint& blueprint) -> std::unique_ptr<Layer> {
    const auto scope = blueprint.layer(scope_name);
    return std::make_unique<L>(blueprint, args...);
  }};
}

// Elements of a part of a message between stages, so that the next part is aligned; the shape is as
// a rank holds it.
[[nodiscard]] std::int64_t padded_in_message(const Shape& held);

// Facts about every layer before allocation.
struct LayerSummary {
  std::string name;
  double forward_flops = 0;    // of one micro-batch on all ranks, where forward_flops() is asked
  Shape output{};              // as Layer::output_shape
  std::int64_t held = 0;       // elements of it on each rank
  std::int64_t handed_on = 0;  // elements that a pipeline stage that ends here sends
  std::vector<ParamSpec> params{};
  bool splits_backward = false;
  std::size_t kept_bytes = 0;  // of one micro-batch, between forward and backward
  std::vector<Skip> skips{};   // on their way past this layer
  SampleTraffic traffic{};

  [[nodiscard]] Handover handover() const { return {output, skips}; }
};
[[nodiscard]] std::vector<LayerSummary> summarize(const Chain& chain, DeviceType device,
                                                  const BuildOptions& options);

// FLOPs of each layer's forward with `batch`, a multiply-add counting 2: those of its operations on
// `device`, which runs nothing (device/dry/dry_device.h). Backward costs about twice this.
[[nodiscard]] std::vector<double> forward_flops(const Chain& chain, const BuildOptions& options,
                                                Device& device, const Batch& batch);

// The limits that the layers of a chain set on any layout, declared for one sample on one rank.
// Blocks come first.
[[nodiscard]] ModelLimits limits_of(const Chain& chain);

// Bytes on one rank, for all micro-batches in flight.
struct ActivationArenas {
  std::size_t kept = 0;       // from forward to backward
  std::size_t scratch = 0;    // shared by the layers
  std::size_t workspace = 0;  // shared by their ops
};

// Layers [first, last) of the chain, with room for `slots` micro-batches between forward and
// backward.
struct ChunkSpan {
  int first = 0;
  int last = 0;
  int slots = 1;
};

// Called before a layer runs. `unit` and `next` number the layers that this rank holds, in chain
// order; `next` is the following layer of the same pass, -1 for the last.
class LayerHook {
 public:
  virtual ~LayerHook() = default;
  virtual void before_forward(int unit, int next) = 0;
  virtual void before_backward(int unit, int next) = 0;  // also before backward_weight
  // For observers: the output of layer `index` of the context's chunk (empty for a head), and the
  // gradient of its input.
  virtual void after_forward(const Context& /*context*/, int /*index*/, const Layer& /*layer*/,
                             const Tensor& /*output*/) {}
  virtual void after_backward(const Context& /*context*/, int /*index*/, const Layer& /*layer*/,
                              const Tensor& /*input_gradient*/) {}
};

class Model {
 public:
  // Allocates only after everything is declared. The device must outlive the model. Without
  // `chunks` the model is the whole chain. inputs[c] is what the layer before chunk c hands on, as
  // summarize() says.
  Model(Device& device, const Chain& chain, const BuildOptions& options,
        std::span<const ChunkSpan> chunks = {}, std::span<const Handover> inputs = {},
        const StoreOptions& store = {}, bool separate_ties = false);
  // The layers of `other` with a different number of rows per decoding pass. Shares parameters and
  // cache with `other`, which must outlive it.
  Model(const Model& other, const Chain& chain, const BuildOptions& options,
        std::span<const ChunkSpan> chunks, std::span<const Handover> inputs);

  void forward(const Context& context);
  // With a split backward: the gradient of the input only.
  void backward(const Context& context);
  void backward_weight(const Context& context);

  // A context for micro-batch slot `slot` of a chunk, in this model's memory; the caller fills in
  // the step's values.
  [[nodiscard]] Context context(Stream& stream, const Batch& batch, bool training, int chunk = 0,
                                int slot = 0) const;

  // Of sequences that are cut, the blocks that this rank runs, else 1; and a block of the
  // micro-batch of `context`, in its own memory and with its rows of the batch.
  [[nodiscard]] int blocks() const { return split_.local(); }
  [[nodiscard]] Context block(const Context& context, int block) const;

  // For tests: before each pass of a layer, fills with NaNs all memory that the layer may not read
  // yet: its scratch, the workspace, its kept activations and its output. A read of stale memory
  // then yields NaN. TRIREME_POISON_ACTIVATIONS=1 in the environment turns it on for all models.
  void poison_activations(bool wanted) { poisoned_ = wanted; }

  // The buffers that a pipeline stage receives and sends, skips behind the layer's own tensor.
  // Empty at the ends of the chain.
  [[nodiscard]] Tensor input(const Context& context) const;
  [[nodiscard]] Tensor output(const Context& context) const;
  [[nodiscard]] Tensor input_gradient(const Context& context) const;
  [[nodiscard]] Tensor output_gradient(const Context& context) const;
  // The output of layer `i` of the context's chunk; empty for a head.
  [[nodiscard]] Tensor output_of(const Context& context, std::size_t i) const;

  // Decoding models: clears the cache of all texts. Under poison_activations() the cache reads as
  // NaN until it is written.
  void forget(Stream& stream) const;

  [[nodiscard]] ParamStore& params() { return *params_; }
  [[nodiscard]] const ParamStore& params() const { return *params_; }
  // Raises an error if this rank does not hold the head.
  [[nodiscard]] const HeadInfo& head() const;
  [[nodiscard]] bool has_head() const { return head_ != nullptr; }
  [[nodiscard]] bool token_losses() const { return token_losses_; }  // Blueprint::token_losses
  [[nodiscard]] int chunk_count() const { return static_cast<int>(chunks_.size()); }
  [[nodiscard]] int slots(int chunk) const { return at(chunk).slots; }
  // The layers of a chunk, numbered as in the store and the hook.
  [[nodiscard]] UnitRange units(int chunk) const;
  void set_hook(LayerHook* hook) { hook_ = hook; }
  // From now on, training passes of layers are recorded as graphs and replayed.
  void use_layer_graphs() { graphs_ = std::make_unique<LayerGraphs>(device_); }
  [[nodiscard]] ActivationArenas activation_arenas() const {
    return {kept_.bytes(), scratch_.bytes(), workspace_.bytes()};
  }
  [[nodiscard]] std::size_t activation_bytes() const {
    const ActivationArenas arenas = activation_arenas();
    return arenas.kept + arenas.scratch + arenas.workspace;
  }
  // 0 unless the model decodes and owns its cache.
  [[nodiscard]] std::size_t cache_bytes() const { return own_cache_.bytes(); }

 private:
  struct Boundary {
    Activation value{};     // output of the layer before, kept
    Activation gradient{};  // its gradient: kept at the ends of a chunk, scratch inside
    int region = -1;        // which of the two scratch regions; -1: kept
    bool exists = false;    // false before the chain's first layer and after a head
  };
  // What a chunk receives or sends as one message.
  struct Message {
    Activation whole{};
    std::vector<Activation> parts{};  // the layer's tensor, then the skips
  };
  static Message keep_message(Blueprint& blueprint, const Shape& own,
                              std::span<const OpenSkip> skips);
  struct Passing {
    SkipPlace in, out;
  };
  // A block's rows of a batch, kept: what the chunk's layers read.
  struct CutBatch {
    Activation inputs{}, targets{}, document_starts{};
  };
  struct Chunk {
    std::vector<std::unique_ptr<Layer>> layers;
    std::vector<bool> recomputed;
    std::vector<Activation> keeps;     // per layer: everything that it keeps, as bytes
    std::vector<Boundary> boundaries;  // layers.size() + 1
    Message input, output, input_gradient, output_gradient;
    CutBatch cut;
    std::vector<OpenSkip> received, sent;
    std::vector<Passing> passing;  // skips that are received and sent
    int slots = 1;
    int first_unit = 0;
    // Of a chain's first layers those below any trained weight, which have no backward, and their
    // running statistics.
    std::size_t idle = 0;
    std::vector<ParamId> idle_statistics;
    std::size_t kept_begin = 0, kept_bytes = 0;  // as declared, of one block
    std::size_t kept_base = 0;                   // of slot 0 in the arena
  };
  [[nodiscard]] const Arena& cache() const {
    return shared_cache_ == nullptr ? own_cache_ : *shared_cache_;
  }
  void build_chunks(Blueprint& blueprint, const Chain& chain, std::span<const ChunkSpan> chunks,
                    std::span<const Handover> inputs);
  void build(Blueprint& blueprint, const Chain& chain, const ChunkSpan& span,
             const Handover& input);
  void find_idle_layers(Chunk& chunk) const;
  [[nodiscard]] static bool reaches_input(const Chunk& chunk, std::size_t i);
  static void lay_out_boundaries(Blueprint& blueprint, Chunk& chunk, const Shape& input);
  // `first`: the number of skips of the chunks before.
  void lay_out_skips(Blueprint& blueprint, Chunk& chunk, std::size_t first);
  void pass_skips(const Context& context, LayerPass pass) const;
  void place_regions(Blueprint& blueprint);
  void allocate(const Blueprint& blueprint);
  void report_idle(const Context& context) const;
  void poison(const Context& context, std::size_t i, LayerPass pass) const;
  void plan_cuts(std::int64_t samples);
  void cut_batch(const Context& context) const;
  // Calls work(context) for each part of a pass, of each block.
  template <typename Work>
  void each_block(const Context& context, int parts, Work&& work);
  // Runs a pass of layer i of a chunk, as a graph if graphs are in use.
  template <typename Work>
  void run(const Context& context, std::size_t i, LayerPass pass, Work&& work);
  [[nodiscard]] const Chunk& at(int chunk) const {
    return chunks_[static_cast<std::size_t>(chunk)];
  }

  Device& device_;
  ContextSplit split_;
  // Of batches: two for each block.
  std::shared_ptr<const std::vector<ops::BoxCopy>> cuts_;
  std::shared_ptr<ParamStore> params_;
  std::vector<Chunk> chunks_;
  const HeadInfo* head_ = nullptr;
  LayerHook* hook_ = nullptr;
  std::unique_ptr<LayerGraphs> graphs_;
  Arena kept_, scratch_, workspace_, host_, own_cache_;
  const Arena* shared_cache_ = nullptr;
  std::size_t block_scratch_ = 0;  // of each block
  std::size_t shared_base_ = 0;    // of what blocks share, behind these
  std::size_t own_scratch_ = 0;    // of the layers; the gradients between them follow it
  std::vector<SkipPlace> skips_;   // by id, over all chunks
  Layout skip_scratch_;            // gradients of skips inside a chunk, of all chunks
  bool poisoned_ = false, split_backward_ = false, token_losses_ = false;
  Activation losses_{}, correct_{};
};

}  // namespace trireme
