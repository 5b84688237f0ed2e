// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/text/decoder.h"

#include <algorithm>

#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {
namespace {

constexpr std::int64_t prompt_rows = 64;

// A single row uses other matmul code than many rows, with other bits in f32 and several times as
// fast: if bits matter, a pass has the minimum number of rows of the general code.
constexpr std::int64_t rows_of_equal_bits = 16;

std::int64_t narrow_rows(const Session& session) {
  const bool exact = session.config.reproducibility != Reproducibility::fast &&
                     compute_dtype(session.config.precision) == DType::f32;
  const std::int64_t texts = session.config.train.micro_batch;
  const std::int64_t rows = exact ? (rows_of_equal_bits + texts - 1) / texts : 1;
  return std::min(rows, session.decode.rows);
}

std::size_t bytes_of(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(std::int32_t);
}

class Pass final : public StageWork {
 public:
  Pass(Session& session, Model& model, const Batch& batch, const DecodePass& decode)
      : session_(session), model_(model), batch_(batch), decode_(decode) {}

  Context context(int chunk, int micro_batch) override {
    Context context =
        model_.context(*session_.streams.compute, batch_, /*training=*/false, chunk, micro_batch);
    context.tensor = &session_.tensor;
    context.experts = session_.experts;
    context.context_group = session_.context_group();
    context.decode = &decode_;
    return context;
  }
  void compute(const Action& action) override {
    model_.forward(context(action.chunk, action.micro_batch));
  }

 private:
  Session& session_;
  Model& model_;
  const Batch& batch_;
  const DecodePass& decode_;
};

}  // namespace

DecodeShape decode_shape(const Config& resolved, std::int64_t capacity) {
  const std::int64_t context = traits_of(resolved.model).context;
  if (capacity == 0 || capacity > context) capacity = context;
  const std::int64_t ranks = resolved.parallel.context;
  return {.rows = std::min(prompt_rows, (capacity + ranks - 1) / ranks),
          .capacity = capacity,
          .ranks = static_cast<int>(ranks)};
}

Decoder::Decoder(Session& session)
    : session_(session),
      device_(*session.device),
      stream_(*session.streams.compute),
      texts_(static_cast<int>(session.config.train.micro_batch)),
      narrow_model_(session.part_of_rows(narrow_rows(session))),
      wide_{*session.model, session.decode.rows,
            PipelineRunner(device_, *session.model, session.mesh.pipeline(), stream_,
                           session.pipeline)},
      narrow_{*narrow_model_, narrow_rows(session),
              PipelineRunner(device_, *narrow_model_, session.mesh.pipeline(), stream_,
                             session.pipeline)},
      ranks_(session.decode.ranks),
      rank_(session.mesh.here().data % session.decode.ranks),
      last_(static_cast<std::size_t>(texts_)) {
  const MemoryScope scope(MemoryRole::staging);
  const auto pair = [&](Buffer& device, Buffer& host, std::int64_t count) {
    device = Buffer(device_, bytes_of(count), MemoryKind::device);
    host = Buffer(device_, bytes_of(count), MemoryKind::host);
  };
  pair(tokens_, tokens_host_, texts_ * wide_.rows);
  pair(spans_, spans_host_, 2 * std::int64_t{texts_} * ranks_);
  if (!session.dry) session.model->forget(stream_);
  if (!session.model->has_head()) return;
  const TensorSplit& split = session.model->params().layout().splits().tensor;
  pair(rows_, rows_host_, texts_ * session.model->head().logits.shape.back() * split.blocks);
}

// The previous pass may still be reading the host memory.
void Decoder::stage(std::span<const Piece> pieces, std::int64_t rows, int ranks) {
  stream_.synchronize();
  auto* const tokens = reinterpret_cast<std::int32_t*>(tokens_host_.data());
  auto* const spans = reinterpret_cast<std::int32_t*>(spans_host_.data());
  std::fill_n(tokens, texts_ * rows, 0);
  for (std::int64_t b = 0; b < texts_; ++b) {
    const auto& [first, text] = pieces[static_cast<std::size_t>(b)];
    const auto count = static_cast<std::int64_t>(text.size());
    TRIREME_EXPECTS(first >= 0 && count <= ranks * rows && first + count <= capacity(),
                    "{} tokens from position {} of a text of at most {}", count, first, capacity());
    for (int r = 0; r < ranks; ++r) {
      const std::int64_t before = std::min(r * rows, count), own = std::min(rows, count - before);
      std::int32_t* const span = spans + 2 * (r * std::int64_t{texts_} + b);
      span[0] = static_cast<std::int32_t>(first + before);
      span[1] = static_cast<std::int32_t>(own);
      if (ranks > 1 && r != rank_) continue;
      std::copy_n(text.data() + before, own, tokens + b * rows);
      last_[static_cast<std::size_t>(b)] =
          static_cast<std::int32_t>(std::max<std::int64_t>(own - 1, 0));
    }
  }
  device_.copy(stream_, tokens_.data(), tokens, bytes_of(texts_ * rows));
  device_.copy(stream_, spans_.data(), spans, spans_.bytes());
}

// Every rank reads the last tokens, so that each has the logits.
void Decoder::read_last_apart(std::span<const Piece> pieces) {
  std::vector<Piece> before(pieces.begin(), pieces.end()), last = before;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& [first, text] = pieces[i];
    if (text.empty()) continue;
    before[i].tokens = text.first(text.size() - 1);
    last[i] = {first + std::ssize(text) - 1, text.last(1)};
  }
  read(before, /*wanted=*/false);
  read(last, /*wanted=*/true);
}

void Decoder::read(std::span<const Piece> pieces, bool wanted) {
  TRIREME_EXPECTS(std::ssize(pieces) == texts_, "{} pieces of {} texts", pieces.size(), texts_);
  const bool fits = std::ranges::all_of(
      pieces, [&](const Piece& piece) { return std::ssize(piece.tokens) <= narrow_.rows; });
  if (wanted && !fits && ranks_ > 1) return read_last_apart(pieces);
  Width& width = fits ? narrow_ : wide_;
  const int ranks = fits ? 1 : ranks_;
  stage(pieces, width.rows, ranks);
  const Batch batch{tokens_.view(DType::i32, Shape{texts_, width.rows}), {}, {}, {}};
  const Tensor spans = spans_.view(DType::i32, Shape{ranks, texts_, 2});
  const DecodePass decode{block_of(spans, ranks > 1 ? rank_ : 0, Shape{texts_, 2}), last_, spans};
  Pass pass(session_, width.model, batch, decode);
  width.runner.forward_only(0, pass);
  if (wanted && width.model.has_head()) fetch_logits(width.model, pass.context(0, 0));
  stream_.synchronize();
  width.runner.synchronize();
}

// Each tensor rank has some blocks of the classes.
void Decoder::fetch_logits(const Model& model, const Context& context) {
  const TensorSplit& split = model.params().layout().splits().tensor;
  const Tensor from = context(model.head().logits);  // (local blocks, texts, classes)
  const std::int64_t local = from.count();
  const Tensor all = rows_.view(DType::f32, Shape{local / split.local() * split.blocks});
  const Tensor own = all.range(local / split.local() * split.first(), local);
  if (from.dtype == DType::f32) {
    device_.copy(stream_, own.data, from.data, from.bytes());
  } else {
    ops::cast(stream_, own, from.reshaped(own.shape));
  }
  if (split.ranks > 1) session_.tensor.all_gather(stream_, own, all);
  device_.copy(stream_, rows_host_.data(), all.data, all.bytes());
}

std::span<const float> Decoder::logits(int text) {
  if (!session_.model->has_head()) return {};
  const std::int64_t columns = session_.model->head().logits.shape.back();
  const auto* const rows = reinterpret_cast<const float*>(rows_host_.data());
  const std::int64_t blocks = session_.model->params().layout().splits().tensor.blocks;
  logits_.clear();
  for (std::int64_t block = 0; block < blocks; ++block) {
    const float* const row = rows + (block * texts_ + text) * columns;
    logits_.insert(logits_.end(), row, row + columns);
  }
  return std::span(logits_).first(static_cast<std::size_t>(session_.model->head().classes));
}

}  // namespace trireme
