// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/layers/blocks.h"

namespace trireme {

// Sends the rows of tokens to the ranks that own their experts, and back. A rank of the expert
// group is (data, tensor): m data ranks with a micro-batch each, whose N tokens are shared evenly
// by their tensor ranks; the home rows of a rank are its share. At the owner rows are ordered by
// source rank, local expert and token.
//
// Memory is for `capacity` rows at an owner, ExpertBuild::capacity_factor times an even
// load. Where routing exceeds that, tokens travel in several rounds of fewer tokens each, so that
// every row is computed. Rounds are runs of the tokens of every micro-batch, so that the rows of an
// expert stay in the order of tokens: bits are the same, but for weight gradients that are no
// chains (ops/experts/grouped_linear.h): in 16 bits on GPUs Blueprint::layout_bits allows one
// round only.
class RowExchange {
 public:
  RowExchange(Blueprint& blueprint, std::int64_t experts, std::int64_t slots, const RowSplit& rows);

  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  [[nodiscard]] std::int64_t local_experts() const { return experts_ / split_.ranks; }
  // Groups of rows of a source data rank, for weight gradients: [d * groups, (d + 1) * groups).
  [[nodiscard]] std::int64_t groups() const { return tensor_ranks_ * local_experts(); }
  [[nodiscard]] int data_ranks() const { return data_ranks_; }
  [[nodiscard]] int tensor_ranks() const { return tensor_ranks_; }
  [[nodiscard]] std::int64_t first_home() const { return first_; }
  [[nodiscard]] std::int64_t home() const { return home_; }
  // This rank's rows of a whole tensor of N rows.
  [[nodiscard]] Tensor home_of(const Tensor& whole) const;

  // After routing: how many rounds this micro-batch takes. slots(N, k). Fails with ExitCode::config
  // if their bits are not allowed, on all ranks alike.
  int plan(const Context& context, const Tensor& slots) const;
  [[nodiscard]] int rounds(const Context& context) const { return plan_of(context).rounds; }
  // Orders the rows of a round; those of the only round stay known until backward.
  void begin(const Context& context, int round, const Tensor& slots) const;

  // The rows of the round, of a tensor with `capacity` rows.
  [[nodiscard]] Tensor received(const Context& context, int round, const Tensor& rows) const;
  // First row of each group (source rank, local expert), and their end.
  [[nodiscard]] Tensor group_offsets(const Context& context) const;

  // Starts sending x(h, C), the home rows, to received rows, and values(h, k), if any, likewise;
  // finish() waits for them.
  void start(const Context& context, int round, const Tensor& to, const Tensor& x,
             const Tensor& values_to = {}, const Tensor& values = {}) const;
  void finish(const Context& context) const;
  // y(h, C) = residual + the sum of each token's rows, weighted if there are weights(h, k); and
  // values(h, k) from received ones, if any.
  void collect(const Context& context, int round, const Tensor& y, const Tensor& from,
               const Tensor& weights, const Tensor& residual, const Tensor& values = {},
               const Tensor& values_from = {}) const;

 private:
  struct Range {
    std::int64_t first = 0, end = 0;
    [[nodiscard]] std::int64_t count() const { return end - first; }
  };
  // Of a micro-batch in flight.
  struct Plan {
    int rounds = 1;
    std::vector<std::int32_t> counts{};  // (source rank, part of its tokens, expert)
  };
  [[nodiscard]] bool alone() const { return split_.ranks == 1; }
  void assume_counts(Plan& plan) const;
  [[nodiscard]] const Plan& plan_of(const Context& context) const;
  // Parts of the source's tokens in a round of `rounds`; of P parts of a micro-batch.
  [[nodiscard]] Range parts(int tensor_rank, int round, int rounds) const;
  // Home tokens of a round, and their slots.
  [[nodiscard]] Range tokens(const Plan& plan, int round) const;
  [[nodiscard]] std::int64_t rows_between(const Plan& plan, int source, int owner, int round) const;
  void count(const Context& context, const Plan& plan) const;
  [[nodiscard]] std::int64_t rows_of_owner(const Plan& plan, int owner, int round) const;
  // Rows that travel from home to their owners, or back.
  struct Exchanged {
    Tensor home, owned;
    std::int64_t width = 1;
    bool back = false;
  };
  void check_rounds(const Plan& plan) const;
  void add_messages(const Context& context, int round, const Exchanged& rows,
                    std::vector<TensorGroup::Message>& messages) const;
  [[nodiscard]] Tensor run(const Tensor& home, const Range& tokens) const;

  std::string name_;
  bool one_round_;
  TensorSplit split_;  // of the experts
  int data_ranks_, tensor_rank_, tensor_ranks_;
  std::int64_t experts_, slots_, hidden_, home_, first_, even_, capacity_;
  double imbalance_ = 1;
  Activation places_, offsets_;                     // (h, k), (E + 1), i32
  Activation host_counts_{};                        // as counts
  Activation counts_{}, group_offsets_{};           // (P, m, E), (P * local experts + 1), i32
  Activation sent_{}, sent_values_{};               // (h k, C), (h k): home rows by expert
  mutable std::map<std::ptrdiff_t, Plan> plans_{};  // by Context::kept_shift
};

}  // namespace trireme
