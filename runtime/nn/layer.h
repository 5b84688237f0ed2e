// SPDX-License-Identifier: Apache-2.0
// How a model is declared and run. A Layer reserves its parameters and activations from a Blueprint
// in its constructor, so all memory is known before any is allocated. forward and backward only
// enqueue.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/config/choices.h"
#include "runtime/config/model_limits.h"
#include "runtime/config/param_rules.h"
#include "runtime/config/target_spec.h"
#include "runtime/device/arena.h"
#include "runtime/nn/batch.h"
#include "runtime/nn/context_split.h"
#include "runtime/nn/expert_meter.h"
#include "runtime/nn/param_store.h"
#include "runtime/nn/spatial.h"
#include "runtime/nn/tensor_group.h"

namespace trireme {

// A tensor of a layer: an offset in one of the arenas.
struct Activation {
  enum class Space : std::uint8_t {
    kept,       // from forward to backward of a micro-batch, for backward
    scratch,    // within one forward or backward call of a chain layer; those layers share it
    shared,     // the same, once for all blocks of sequences that are cut in time
    workspace,  // within one op call; all ops share it
    host,       // within one call of a layer, where the host reads copies
    cache       // from one pass to the next: keys and values of earlier rows in a decoding model,
                // or values derived from the weights once a step
  };
  Space space = Space::scratch;
  std::size_t offset = 0;
  DType dtype = DType::f32;
  Shape shape;
};

// A tensor that a layer hands to one later layer of the chain, past those between them, as in a
// U-Net (Ronneberger et al., 2015). In the compute dtype; its name is unique in the chain. The
// shape is whole, also with spatial parallelism.
struct Skip {
  std::string name;
  Shape shape{};
  friend bool operator==(const Skip&, const Skip&) = default;
};
enum class SkipId : std::int32_t {};
struct OpenSkip {
  Skip skip;
  SkipId id{};
};
// What a layer hands on: its output (rank 0: none), and the skips on their way past it.
struct Handover {
  Shape output{};
  std::vector<Skip> skips{};
  friend bool operator==(const Handover&, const Handover&) = default;
};
// Where a chunk has a skip.
struct SkipPlace {
  Activation value{}, gradient{};
};

// A decoding model continues texts: a pass takes the next `rows` positions of every sample, and
// layers cache values for later passes, up to `capacity` positions.
struct DecodeShape {
  std::int64_t rows = 0;  // 0: a pass takes whole samples
  std::int64_t capacity = 0;
  // Ranks of the context group that share the positions of a pass: each takes the `rows` behind
  // those of the ranks before it, and caches all.
  int ranks = 1;
};

// Low-rank adapters (Hu et al., LoRA, 2021) on some linear layers; all other weights are frozen.
struct AdapterOptions {
  std::int64_t rank = 0;  // 0: no adapters
  float scale = 1;        // alpha / rank
  float dropout = 0;      // of the factors' input
  // Last components of layer names: "qkv"; or of their parts that have factors of their own:
  // "query".
  std::vector<std::string> targets{};
};

// A layer's place in ParamRules::layer_decay: how many steps of decay it and the first layer have.
struct LayerDepth {
  int own = 0, first = 0;
};

// Linear layers of transformer blocks that multiply 8-bit floats (ops/fp8.h).
struct Fp8Build {
  bool on = false;
  Fp8Recipe recipe = Fp8Recipe::tensor;
  bool keeps_weights = false;  // in separate memory, two codes per weight, across passes
};

// Experts that are spread over ranks.
struct ExpertBuild {
  // Of the expert group, which holds each expert on one rank. Must equal the ParamStore's.
  TensorSplit split{};
  // Consecutive data ranks whose rows the ranks of an expert group exchange; 1: those of the tensor
  // group alone.
  int data_ranks = 1;
  // Rows that a rank with experts has memory for, in even shares; more are computed in rounds.
  double capacity_factor = 2;
  // Of rows at ranks with experts, largest over mean: what a dry device assumes.
  double imbalance = 1;
};

// How tensor ranks sum the residual stream.
struct TensorSums {
  // Sent in the compute dtype. Their bits then depend on the number of ranks.
  bool rounded = false;
  // Number of parts in which rows are multiplied if tensor ranks sum products, in forward and
  // backward: each part is computed during the previous part's all-reduce. Not with `sequence`.
  int chunks = 1;
  bool sequence = false;  // its rows are split over the tensor ranks
};

// The options of a build. A layer reads those of its subject through its Blueprint.
struct BuildOptions {
  DType compute = DType::f32;
  std::int64_t micro_batch = 1;
  bool training = false;
  // Layout: no bit of a gradient may depend on the layout. Scratch memory of libraries depends on
  // whether it is fast (ExecutionPolicy::reproducible).
  Reproducibility reproducibility = Reproducibility::run;
  Recompute recompute = Recompute::none;
  // Zero-bubble schedules: backward computes dx only and keeps the inputs of backward_weight.
  bool split_backward = false;
  // Rows at a time in MLPs and language heads, which compute again in backward what lies between;
  // a divisor of a micro-batch's rows. 0: all. Not with a sequence or a split backward.
  std::int64_t row_tile = 0;
  bool separate_documents = false;  // batches have documents that attention keeps apart
  TensorSplit tensor{};             // must equal the ParamStore's
  TensorSums sums{};
  ExpertBuild experts{};
  SpatialSplit spatial{};  // of the tensor ranks, with spatial parallelism
  ContextSplit context{};  // of consecutive data ranks, for sequences that are cut in time
  DecodeShape decode{};    // never together with training
  Fp8Build fp8{};
  AdapterOptions adapters{};
  ParamRules rules{};
};

// Collects the layers' declarations. Scopes give parameters their dotted names and let chain layers
// share scratch.
class Blueprint {
 public:
  Blueprint(ParamStore& params, DeviceType device, const BuildOptions& options)
      : params_(params), device_(device), options_(options) {}

  class Scope {
   public:
    Scope(Blueprint& blueprint, std::string_view name, bool share_scratch);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Blueprint& blueprint_;
    std::size_t prefix_length_;
    std::size_t scratch_mark_, shared_mark_;
    bool share_scratch_;
  };
  // Until the returned object dies, names get "name." in front.
  [[nodiscard]] Scope scope(std::string_view name) { return {*this, name, false}; }
  // The same for one layer of the chain: scratch reserved inside is given back at its end.
  [[nodiscard]] Scope layer(std::string_view name) { return {*this, name, true}; }

  // spec.name is relative to the current scope.
  ParamId parameter(ParamSpec spec);
  // A parameter declared elsewhere under its full name (tied weights).
  ParamId shared_parameter(ParamSpec spec);
  [[nodiscard]] bool trains(ParamId id) const { return params_.trains(id); }
  // Whether the linear layer of this name, or of the current scope, has an adapter.
  [[nodiscard]] bool adapts(std::string_view name) const;
  // Tensors of samples are declared by their whole shape (N, [D,] H, W, C). If the split cuts it, a
  // rank holds its slabs (SpatialSplit::held), and so does the activation.
  // Kept from forward to backward; inside a layer that is recomputed as a whole, scratch.
  Activation keep(const Shape& shape, DType dtype);
  Activation keep(const Shape& shape) { return keep(shape, compute()); }
  Activation scratch(const Shape& shape, DType dtype);
  Activation scratch(const Shape& shape) { return scratch(shape, compute()); }
  Activation shared(const Shape& shape, DType dtype);
  Activation shared(const Shape& shape) { return shared(shape, compute()); }
  // Inputs of backward_weight: kept if that is separate from backward, else scratch.
  Activation until_weight(const Shape& shape);
  // `after`: bytes of the workspace that the same call uses otherwise.
  Activation workspace(std::size_t bytes, std::size_t after = 0);
  Activation host(const Shape& shape, DType dtype);
  // What spatial parallelism makes ranks send, for plans.
  [[nodiscard]] SampleTraffic& traffic() { return traffic_; }
  [[nodiscard]] const SampleTraffic& traffic() const { return traffic_; }
  bool token_losses = false;  // a layer has losses that are means over tokens
  // A skip of this layer, which writes it in forward and reads its gradient in backward.
  SkipId offer(std::string name, const Shape& shape);
  // A skip that an earlier layer offered: this one reads it in forward and writes its gradient in
  // backward.
  OpenSkip take(std::string_view name);
  // Only in decoding chains.
  Activation cache(const Shape& shape);
  // In the same space: values derived from the weights (Context::weights_changed).
  Activation derived(const Shape& shape, DType dtype);

  [[nodiscard]] DeviceType device() const { return device_; }
  [[nodiscard]] const BuildOptions& options() const { return options_; }
  [[nodiscard]] DType compute() const { return options_.compute; }
  [[nodiscard]] std::int64_t micro_batch() const { return options_.micro_batch; }
  [[nodiscard]] const TensorSplit& tensor() const { return options_.tensor; }
  [[nodiscard]] const TensorSums& sums() const { return options_.sums; }
  [[nodiscard]] const ExpertBuild& experts() const { return options_.experts; }
  [[nodiscard]] const Fp8Build& fp8() const { return options_.fp8; }
  [[nodiscard]] const AdapterOptions& adapters() const { return options_.adapters; }
  [[nodiscard]] bool splits_backward() const { return options_.split_backward; }
  // Whether no bit of a gradient may depend on the layout.
  [[nodiscard]] bool layout_bits() const {
    return options_.reproducibility == Reproducibility::layout;
  }
  [[nodiscard]] const SpatialSplit& spatial() const { return options_.spatial; }
  [[nodiscard]] bool decodes() const { return options_.decode.rows > 0; }
  // How many positions of a sample a layer takes at a time: all of them, unless the chain decodes
  // or a sequence is cut into blocks.
  [[nodiscard]] std::int64_t rows_of(std::int64_t context) const {
    if (decodes()) return options_.decode.rows;
    return options_.context.cuts() ? options_.context.rows() : context;
  }
  // The shape of the next layer's input; rank 0 for the first layer.
  [[nodiscard]] const Shape& input() const { return input_; }
  // Called by the model between layers.
  void begin_layer(const Shape& input, bool recomputed, const LayerDepth& depth = {}) {
    input_ = input;
    recomputed_ = recomputed;
    depth_ = depth;
  }
  // While it lives, keep() reserves scratch.
  class Recomputed {
   public:
    explicit Recomputed(Blueprint& blueprint)
        : blueprint_(blueprint), before_(std::exchange(blueprint.recomputed_, true)) {}
    ~Recomputed() { blueprint_.recomputed_ = before_; }
    Recomputed(const Recomputed&) = delete;
    Recomputed& operator=(const Recomputed&) = delete;

   private:
    Blueprint& blueprint_;
    bool before_;
  };
  // Called between chunks: gives an id to each skip that the chunk receives.
  void begin_chunk(std::span<const Skip> received);
  // Offered or received, and not yet taken; in the order of offers.
  [[nodiscard]] std::span<const OpenSkip> open_skips() const { return open_skips_; }
  // By id, over all chunks so far.
  [[nodiscard]] std::span<const Shape> skip_shapes() const { return skip_shapes_; }
  [[nodiscard]] const Layout& kept_layout() const { return kept_; }
  [[nodiscard]] const Layout& scratch_layout() const { return scratch_; }
  [[nodiscard]] const Layout& shared_layout() const { return shared_; }
  [[nodiscard]] const Layout& workspace_layout() const { return workspace_; }
  [[nodiscard]] const Layout& host_layout() const { return host_; }
  [[nodiscard]] const Layout& cache_layout() const { return cache_; }
  [[nodiscard]] std::string full_name(std::string_view name) const {
    return prefix_ + std::string(name);
  }

 private:
  void apply_rules(ParamSpec& spec) const;

  ParamStore& params_;
  DeviceType device_;
  BuildOptions options_;
  Shape input_;
  bool recomputed_ = false;
  LayerDepth depth_;
  Layout kept_, scratch_, shared_, workspace_, host_, cache_;
  SampleTraffic traffic_;
  std::vector<OpenSkip> open_skips_;
  std::vector<Shape> skip_shapes_;
  std::string prefix_;
};

// Told when a parameter's gradient is complete for this micro-batch.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  virtual void ready(ParamId id) = 0;
};

// Inputs of a decoding chain's pass besides its tokens (B, rows). Each sample fills the first few;
// the others are padding, which is not cached.
struct DecodePass {
  Tensor spans{};                        // (B, 2) i32, on the device: first position, rows filled
  std::span<const std::int32_t> last{};  // (B), on the host: the row with the wanted logits
  Tensor all_spans{};                    // (ranks, B, 2), if ranks share a pass
};

// The inputs of one forward or backward pass of one micro-batch. Owns nothing.
struct Context {
  Stream& stream;
  const ParamStore& params;
  const Arena& kept;
  const Arena& scratch;
  const Arena& workspace;
  Batch batch;
  int chunk = 0;                        // which run of layers of the model
  std::ptrdiff_t kept_shift = 0;        // from the declared offsets to this micro-batch's slot
  const TensorGroup* tensor = nullptr;  // never null where parameters are split over ranks
  // The ranks that share experts out among them, ExpertBuild::data_ranks times the tensor group;
  // the same object if there are as many. Null if there is one.
  const TensorGroup* experts = nullptr;
  // The context-parallel ranks; null if there is one.
  const TensorGroup* context_group = nullptr;
  // With context parallelism: the index of this rank's block (ContextSplit::local), and the part of
  // the pass (Layer::forward_parts).
  int block = 0, part = 0;
  std::ptrdiff_t scratch_shift = 0;     // from the declared offsets to this block's
  std::ptrdiff_t shared_shift = 0;      // to memory that blocks share, after theirs
  ExpertMeter* expert_meter = nullptr;  // null: nothing is counted
  bool recomputing = false;             // this forward repeats an earlier one for its backward
  Tensor rng{};                         // (2) u64: seed, step
  Tensor losses{};                      // (targets of the micro-batch) f32: written by the head
  Tensor correct{};  // the same shape: 1 if the prediction is right; of values the absolute error
  bool training = false;          // dropout, augmentation, batch statistics; else evaluation
  float statistic_weight = 1.0F;  // 1 / micro-batches in the global batch
  LossOptions loss{};
  // Losses that are means over tokens have another divisor than `loss`: the counted targets and
  // tokens of the step, (2) on the device; null: equal.
  const double* token_totals = nullptr;
  GradientSink* gradients = nullptr;  // null: no receiver of single gradients
  // Values derived from weights may be out of date: forward recomputes them.
  bool weights_changed = true;
  const Arena *cache = nullptr, *host = nullptr;
  // For a decoding chain:
  const DecodePass* decode = nullptr;
  std::span<const SkipPlace> skips{};

  [[nodiscard]] Tensor skip(SkipId id) const {
    return (*this)(skips[static_cast<std::size_t>(id)].value);
  }
  [[nodiscard]] Tensor skip_gradient(SkipId id) const {
    return (*this)(skips[static_cast<std::size_t>(id)].gradient);
  }

  [[nodiscard]] Tensor operator()(const Activation& a) const {
    if (a.space == Activation::Space::kept) {
      const auto offset = static_cast<std::ptrdiff_t>(a.offset) + kept_shift;
      return kept.at(static_cast<std::size_t>(offset), a.dtype, a.shape);
    }
    if (a.space == Activation::Space::cache) return cache->at(a.offset, a.dtype, a.shape);
    if (a.space == Activation::Space::host) return host->at(a.offset, a.dtype, a.shape);
    if (a.space == Activation::Space::workspace) return workspace.at(a.offset, a.dtype, a.shape);
    const bool all = a.space == Activation::Space::shared;
    const auto offset =
        static_cast<std::ptrdiff_t>(a.offset) + (all ? shared_shift : scratch_shift);
    return scratch.at(static_cast<std::size_t>(offset), a.dtype, a.shape);
  }
  // Nothing for a frozen parameter, so that layers report all of theirs.
  void ready(ParamId id) const {
    if (gradients != nullptr && params.trains(id)) gradients->ready(id);
  }
};

// The loss head's results: targets of one micro-batch, and the place of the logits (for
// generation).
struct HeadInfo {
  std::int64_t targets = 0;  // per micro-batch: B * T tokens, B labels, B * K values, all pixels
  std::int64_t classes = 0;  // 0 for values
  // (targets, padded classes); with tensor blocks (local blocks, targets, W). Of a chain that
  // decodes: B rows, one of each sample. For values the predictions, (B, K).
  Activation logits{};
  bool whole = true;  // false: logits are those of one tile of rows, valid inside the head
  TargetKind kind = TargetKind::label;
  std::vector<float> class_weights{};  // of pixels; empty: 1
};

// One element of a model's chain: between two of them a pipeline may cut.
class Layer {
 public:
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  // Shape of the output, whole with spatial parallelism; rank 0 for a loss head, which has
  // none.
  [[nodiscard]] const Shape& output_shape() const { return output_shape_; }
  // True when backward turns dy into dx in the same memory.
  [[nodiscard]] virtual bool backward_in_place() const { return false; }
  // True when the layer honours BuildOptions::split_backward.
  [[nodiscard]] virtual bool splits_backward() const { return false; }
  // A layer whose blocks of context parallelism need each other runs in parts: forward and backward
  // are called with Context::part 0 for each of the rank's blocks, then with 1 for each, and so on.
  [[nodiscard]] virtual int forward_parts() const { return 1; }
  [[nodiscard]] virtual int backward_parts() const { return 1; }
  // Adds this layer's limits, for a layer declared on one tensor rank.
  virtual void add_limits(ModelLimits& /*limits*/) const {}
  // Set by a loss head, the last layer of a whole chain.
  [[nodiscard]] virtual const HeadInfo* head() const { return nullptr; }

  // Plans also run both passes on a device that runs nothing (Execution::none), where operations
  // are counted and memory must not be touched.
  virtual void forward(const Context& context, const Tensor& x, const Tensor& y) = 0;
  // x and y are forward's. dx is overwritten (or turned from dy in place); the first layer gets an
  // empty dx, a head an empty dy. Parameter gradients are accumulated, unless backward is split.
  virtual void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                        const Tensor& dx) = 0;
  // The parameter gradients of a split backward, some time after it. x is forward's.
  virtual void backward_weight(const Context& /*context*/, const Tensor& /*x*/) {
    TRIREME_EXPECTS(false, "layer {} does not split its backward", name_);
  }

 protected:
  Layer(std::string name, Shape output_shape)
      : name_(std::move(name)), output_shape_(output_shape) {}

 private:
  std::string name_;
  Shape output_shape_;
};

}  // namespace trireme
