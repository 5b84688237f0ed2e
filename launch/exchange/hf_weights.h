// SPDX-License-Identifier: Apache-2.0
// Hugging Face weights, checked against the tensors of our model.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "models/transformer/exchange.h"
#include "runtime/checkpoint/files/weight_files.h"

namespace trireme {

// Their tensors by the names of Exchange::names, which may be stored in MXFP4 (mxfp4.h). Errors are
// ExitCode::checkpoint and name the tensor.
class HfWeights {
 public:
  // `path` as for WeightFiles.
  HfWeights(const std::string& path, const hugging_face::Exchange& exchange,
            const ModelConfig& model);

  // The tensors of the files that our tensor is made of: one by one, or fused.
  [[nodiscard]] std::span<const hugging_face::HfTensor> parts(
      const hugging_face::NamePair& pair) const;
  // Whether the files have it, also as MXFP4.
  [[nodiscard]] bool has(const hugging_face::HfTensor& part) const {
    return names_.contains(part.name) || is_packed(part);
  }
  // For expect_nothing_else().
  void ignore(const hugging_face::HfTensor& part) {
    used_.insert(part.name);
    tied_ = tied_ && part.name != head_;
  }
  // Raises an error if the tensor is missing or does not fit the model.
  void require(const hugging_face::HfTensor& part);
  // Raises an error for a tensor that was not required.
  void expect_nothing_else() const;
  // Tensors that the model does not use, without counters and a tied head.
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }
  // If there is a tied head, it must equal the token table.
  [[nodiscard]] std::vector<float> read(const hugging_face::HfTensor& part) const;
  // The largest of the counters; nothing if there are none.
  [[nodiscard]] std::optional<std::int64_t> batches(std::span<const std::string> counters) const;

 private:
  [[nodiscard]] const std::string& full_name(const hugging_face::HfTensor& part) const;
  // The two tensors of MXFP4, if they stand for it.
  [[nodiscard]] std::array<hugging_face::HfTensor, 2> packed(
      const hugging_face::HfTensor& part) const;
  [[nodiscard]] bool is_packed(const hugging_face::HfTensor& part) const {
    return !names_.contains(part.name) && names_.contains(packed(part)[0].name);
  }
  void require_stored(const hugging_face::HfTensor& part);
  void check_tied_head(const std::vector<float>& tokens) const;

  std::string path_;
  std::string tokens_table_, head_;  // their names
  WeightFiles files_;
  std::map<std::string, std::string> names_;  // by plain name
  std::vector<std::string> left_out_;
  std::set<std::string> used_;  // plain names
  bool tied_ = false;
};

}  // namespace trireme
