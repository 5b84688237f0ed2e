// SPDX-License-Identifier: Apache-2.0
#include "data/sets/masked_tokens.h"

#include "runtime/base/error.h"
#include "runtime/base/philox.h"
#include "runtime/nn/batch.h"

namespace trireme {
namespace {

// A number below `count`.
std::int32_t below(std::uint32_t word, std::int64_t count) {
  return static_cast<std::int32_t>((word * static_cast<std::uint64_t>(count)) >> 32);
}

}  // namespace

MaskedTokens::MaskedTokens(std::unique_ptr<Dataset> tokens, const MaskOptions& options)
    : tokens_(std::move(tokens)), options_(options) {
  TRIREME_EXPECTS(options.share > 0 && options.share <= 1 && options.mask >= 0 &&
                      options.mask < options.vocabulary && options.vocabulary >= 2,
                  "a share of {} masked by token {} of {}", options.share, options.mask,
                  options.vocabulary);
}

// Word 0 of a position selects it, word 1 chooses mask, random or kept, word 2 the random token.
void MaskedTokens::read_in_epoch(std::int64_t epoch, std::int64_t index,
                                 std::span<std::byte> inputs,
                                 std::span<std::int32_t> targets) const {
  tokens_->read_in_epoch(epoch, index, inputs, targets);
  auto* const tokens = reinterpret_cast<std::int32_t*>(inputs.data());
  const auto count = static_cast<std::int64_t>(targets.size());
  const Philox random = Philox::keyed(options_.seed, RandomPurpose::mask);
  const std::uint64_t pass = options_.every_epoch ? static_cast<std::uint64_t>(epoch) : 0;
  const auto draw = [&](std::int64_t place) {
    constexpr int place_bits = 32;
    return random(static_cast<std::uint64_t>(index),
                  pass << place_bits | static_cast<std::uint64_t>(place));
  };
  // If no place is selected, this one is.
  std::int64_t always = below(draw(count)[0], count);
  for (std::int64_t place = 0; place < count && always >= 0; ++place) {
    if (static_cast<double>(Philox::uniform(draw(place)[0])) < options_.share) always = -1;
  }
  for (std::int64_t place = 0; place < count; ++place) {
    const auto words = draw(place);
    std::int32_t& target = targets[static_cast<std::size_t>(place)];
    target = ignored_target;
    const bool asked = static_cast<double>(Philox::uniform(words[0])) < options_.share;
    if (!asked && place != always) continue;
    target = tokens[place];
    const float what = Philox::uniform(words[1]);
    if (what < 0.8F) {
      tokens[place] = options_.mask;
    } else if (what < 0.9F) {
      const std::int32_t other = below(words[2], options_.vocabulary - 1);
      tokens[place] = other + (other >= options_.mask ? 1 : 0);
    }
  }
}

}  // namespace trireme
