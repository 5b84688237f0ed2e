// SPDX-License-Identifier: Apache-2.0
// Second moments of matrices from the mean squares of their rows and columns (Shazeer and Stern,
// "Adafactor", 2018), for the whole model on every rank: rows + columns values per matrix. In every
// layout only the sums of squares are added over ranks.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/nn/param_store.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme {

class FactoredMoments {
 public:
  // `chain`: the parameters of all pipeline stages, of which each matrix (ParamMatrix) is factored.
  // Of a vector, the second moment is that of its columns.
  FactoredMoments(Device& device, Stream& stream, const ParamStore& params,
                  std::span<const ParamSpec> chain, bool exact);

  // Sums the squares of this rank's gradients.
  void sum(Stream& stream);
  // To be added over the ranks that hold other parts of the model, between sum and update.
  [[nodiscard]] Tensor sums() const;
  void update(Stream& stream, const Tensor& scalars);
  // This rank's gradients, one run per row, for update() with UpdatePart::direction.
  [[nodiscard]] const ops::UpdateTable& rows() const { return rows_; }
  // (n) f32, equal on every rank: all that a checkpoint must store.
  [[nodiscard]] Tensor state() const;

 private:
  // Adjacent elements in this rank's storage of a parameter: part of a matrix, row by row.
  struct Block {
    std::size_t matrix = 0;  // of the parameter
    std::int64_t first = 0, row = 0, column = 0, rows = 0, columns = 0;
  };
  static std::vector<Block> blocks_of(const ParamSpec& spec, const TensorSplit& split);
  void place(std::span<const ParamSpec> chain);
  void make_tables(Stream& stream, const ParamStore& params, bool exact);
  void add_runs(const OwnedRun& run, const ParamStore& params, std::vector<ops::UpdateRun>& rows,
                std::vector<ops::SquaresRun>& squares) const;
  [[nodiscard]] Tensor roots() const;

  std::vector<ops::FactoredMatrix> matrices_;
  std::map<std::string, std::size_t, std::less<>> matrix_of_;  // by ParamSpec::identity, the first
  std::int64_t count_ = 0;                                     // of state, roots and sums
  Buffer state_, roots_, totals_, states_, table_memory_;      // states_: of exact sums
  ops::SquaresTable table_;
  ops::UpdateTable rows_;
};

}  // namespace trireme
