// SPDX-License-Identifier: Apache-2.0
// Incremental decoding: each rank caches keys and values of earlier positions for its layers and
// tensor blocks, so a token costs one row instead of a whole context. The ranks of a context group
// share long prompts: each computes some rows of a pass, and caches the keys and values of all.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "launch/engine/session.h"

namespace trireme {

// For texts of up to `capacity` positions, 0: model.context. Long prompts are read in pieces of
// DecodeShape::rows.
[[nodiscard]] DecodeShape decode_shape(const Config& resolved, std::int64_t capacity = 0);

// One model replica, on the ranks of one data index; all of them make the same calls.
class Decoder {
 public:
  // New input of one text: tokens from position `first` on; they overwrite the cache from there on.
  // No tokens: the text waits.
  struct Piece {
    std::int64_t first = 0;
    std::span<const std::int32_t> tokens{};
  };

  // The session must have a DecodeShape and outlive this. Collective over the replica's ranks.
  explicit Decoder(Session& session);

  [[nodiscard]] int texts() const { return texts_; }  // train.micro_batch
  // Of a piece at most.
  [[nodiscard]] std::int64_t rows() const { return session_.decode.rows * ranks_; }
  [[nodiscard]] std::int64_t capacity() const { return session_.decode.capacity; }

  // Reads a piece of each text, up to the capacity. If `wanted`, logits() are those after the last
  // tokens. Collective over the replica's ranks.
  void read(std::span<const Piece> pieces, bool wanted);
  // One per vocabulary entry; empty if this rank does not hold the head.
  [[nodiscard]] std::span<const float> logits(int text);

 private:
  struct Width {
    Model& model;
    std::int64_t rows;
    PipelineRunner runner;
  };
  void read_last_apart(std::span<const Piece> pieces);
  // `ranks` share the pieces, `rows` each.
  void stage(std::span<const Piece> pieces, std::int64_t rows, int ranks);
  void fetch_logits(const Model& model, const Context& context);

  Session& session_;
  Device& device_;
  Stream& stream_;
  int texts_;
  std::unique_ptr<Model> narrow_model_;  // shares parameters and cache with the session's
  Width wide_, narrow_;
  int ranks_, rank_;  // of the context group
  Buffer tokens_, tokens_host_, spans_, spans_host_, rows_, rows_host_;
  std::vector<std::int32_t> last_;  // per text: the row of the piece's last token
  std::vector<float> logits_;       // of one text
};

}  // namespace trireme
