// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/gemm_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <sstream>

#include "runtime/ops/common/plan_table.h"

namespace trireme::ops {
namespace {

constexpr std::array<std::string_view, 5> epilogue_names = {"none", "bias", "gelu_bias", "dgelu",
                                                            "bias_gradient"};
constexpr std::array operand_types = {DType::f32, DType::bf16, DType::f16, DType::f8e4m3,
                                      DType::f8e5m2};

constexpr std::array<std::string_view, 4> scaling_names = {"fp32", "1x128", "128x128", "1x32"};

std::string arithmetic_of(const GemmKey& key) {
  const auto name = [](Fp8Scaling it) { return scaling_names[static_cast<std::size_t>(it)]; };
  if (key.scaling_a != Fp8Scaling::tensor)
    return fmt::format("{}*{}", name(key.scaling_a), name(key.scaling_b));
  return key.tf32 ? "tf32" : "fp32";
}

// Words that arithmetic_of() does not make are found by comparing the whole text.
void read_arithmetic(const std::string& text, GemmKey& key) {
  key.tf32 = text == "tf32";
  for (std::size_t i = 1; i < scaling_names.size(); ++i) {
    if (text.starts_with(fmt::format("{}*", scaling_names[i])))
      key.scaling_a = static_cast<Fp8Scaling>(i);
    if (text.ends_with(fmt::format("*{}", scaling_names[i])))
      key.scaling_b = static_cast<Fp8Scaling>(i);
  }
}

bool read_type(std::istream& in, DType& type) {
  std::string name;
  in >> name;
  const auto found = std::ranges::find(operand_types, name, [](DType it) { return name_of(it); });
  if (found == operand_types.end()) return false;
  type = *found;
  return true;
}

bool read_transpositions(std::istream& in, GemmKey& key) {
  std::string text;
  in >> text;
  key.transpose_a = text.starts_with('T');
  key.transpose_b = text.ends_with('T');
  return text.size() == 2 && text.find_first_not_of("NT") == std::string::npos;
}

bool read_epilogue(std::istream& in, Epilogue& epilogue) {
  std::string name;
  in >> name;
  const auto found = std::ranges::find(epilogue_names, name);
  epilogue = static_cast<Epilogue>(found - epilogue_names.begin());
  return found != epilogue_names.end();
}

}  // namespace

Epilogue epilogue_apart(Epilogue epilogue) {
  const bool has_bias = epilogue == Epilogue::bias || epilogue == Epilogue::gelu_bias;
  return has_bias ? Epilogue::bias : Epilogue::none;
}

std::size_t plan_hash(const GemmKey& key) {
  PlanHash hash;
  hash.add(key.m, key.n, key.k, key.transpose_a, key.transpose_b, key.type_a, key.type_b,
           key.output, key.epilogue, key.alignment, key.processors, key.tf32, key.scaling_a,
           key.scaling_b);
  return hash.value();
}

std::string to_text(const GemmKey& key) {
  return fmt::format("{} {} {} {}{} {} {} {} {} {} {} {}", key.m, key.n, key.k,
                     key.transpose_a ? 'T' : 'N', key.transpose_b ? 'T' : 'N', name_of(key.type_a),
                     name_of(key.type_b), name_of(key.output),
                     epilogue_names[static_cast<std::size_t>(key.epilogue)], key.alignment,
                     key.processors, arithmetic_of(key));
}

std::optional<GemmKey> parse_gemm_key(std::string_view text) {
  std::istringstream in{std::string(text)};
  GemmKey key;
  in >> key.m >> key.n >> key.k;
  if (!read_transpositions(in, key) || !read_type(in, key.type_a) || !read_type(in, key.type_b) ||
      !read_type(in, key.output) || !read_epilogue(in, key.epilogue))
    return std::nullopt;
  std::string arithmetic;
  in >> key.alignment >> key.processors >> arithmetic;
  read_arithmetic(arithmetic, key);
  // Exactly what to_text() writes: no other spelling, sign or trailing text.
  if (!in || key.m < 1 || key.n < 1 || key.k < 1 || key.processors < 0 ||
      !std::has_single_bit(key.alignment) || to_text(key) != text)
    return std::nullopt;
  return key;
}

}  // namespace trireme::ops
