// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/state_text.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <set>

namespace trireme {
namespace {

// "3 of 8 elements differ, by up to 0.25"; "" where all bits are the same.
std::string difference(const std::vector<float>& left, const std::vector<float>& right) {
  std::size_t elements = 0;
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(left[i]) == std::bit_cast<std::uint32_t>(right[i])) continue;
    ++elements;
    const double by = std::abs(double{left[i]} - double{right[i]});
    // A NaN on one side stays the largest.
    if (!(by <= largest)) largest = by;
  }
  if (elements == 0) return "";
  return fmt::format("{} of {} elements differ, by up to {:.9g}", elements, left.size(), largest);
}

void compare(const RunState& a, const RunState& b, ValueKind kind, StateDifference& found) {
  const auto values_of = [&](const RunState& from) {
    return from.has(kind) ? from.values(kind) : StoredValues{};
  };
  const StoredValues left = values_of(a), right = values_of(b);
  StoredReader left_reader(left), right_reader(right);
  std::set<std::string> names;
  for (const StoredValues* const side : {&left, &right}) {
    for (const auto& [name, tensor] : side->tensors)
      names.insert(name);
  }
  for (const std::string& name : names) {
    const auto l = left.tensors.find(name), r = right.tensors.find(name);
    std::string what;
    if (l == left.tensors.end() || r == right.tensors.end()) {
      what = fmt::format("only in {}", l == left.tensors.end() ? b.path : a.path);
    } else if (l->second.shape != r->second.shape) {
      what = fmt::format("{} and {}", l->second.shape.to_string(), r->second.shape.to_string());
    } else {
      what = difference(left_reader.whole(l->second), right_reader.whole(r->second));
    }
    ++found.tensors;
    if (what.empty()) continue;
    ++found.differing;
    fmt::print("{}/{}: {}\n", name_of(kind), name, what);
  }
}

}  // namespace

StateDifference print_difference(const RunState& a, const RunState& b) {
  const bool whole = a.checkpoint && b.checkpoint;
  StateDifference found;
  std::vector<std::string_view> left_out;
  for (const ValueKind kind : value_kinds) {
    if (whole || (a.has(kind) && b.has(kind))) {
      compare(a, b, kind, found);
    } else if (a.has(kind) || b.has(kind)) {
      left_out.push_back(name_of(kind));
    }
  }
  if (!left_out.empty())
    fmt::print("not compared, since {} has weights alone: {}\n", a.checkpoint ? b.path : a.path,
               fmt::join(left_out, ", "));
  found.scalars = whole && a.checkpoint->manifest.scalars != b.checkpoint->manifest.scalars;
  if (found.scalars) fmt::print("scalars differ\n");
  return found;
}

}  // namespace trireme
