// SPDX-License-Identifier: Apache-2.0
// Damage at random places: an error when the shard is opened or verified, or provably unchanged
// content.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/hdf5/child.h"
#include "data/shard/shard.h"
#include "data/verify.h"
#include "runtime/base/philox.h"
#include "tests/data/make_data.h"
#include "tests/fuzz/metadata_blocks.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using test::read_text;
using test::write_text;

struct DamagedKind {
  DataKind kind;
  bool masked = false;
};

class ShardDamage : public testing::TestWithParam<DamagedKind> {
 protected:
  ShardDamage() {
    if (GetParam().kind == DataKind::tokens) {
      const std::vector<std::byte> mask(GetParam().masked ? loss_mask_bytes(900) : 0,
                                        std::byte{0x2d});
      test::write_token_shard(path_, test::token_header(900, 250), test::counting_tokens(900, 250),
                              {}, mask);
    } else {
      test::write_image_dataset(directory_.path(), 40, 40, 6, 4);
    }
    good_ = read_text(path_);
    shard_ = open_shard(path_);
  }

  // True when the damage is found; false when the file still gives exactly the original content.
  [[nodiscard]] bool is_found(const std::string& bytes) const {
    std::filesystem::remove(path_);  // overwriting in place makes some file systems sync each time
    write_text(path_, bytes);
    try {
      const Shard shard = open_shard(path_);
      verify_payload(shard);
      EXPECT_EQ(attributes_of(shard.header), attributes_of(shard_.header));
      EXPECT_EQ(payload(bytes, shard), payload(good_, shard_));
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << error.what();
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
      return true;
    }
  }

  static std::string payload(const std::string& bytes, const Shard& shard) {
    return bytes.substr(shard.data_offset, shard.data_bytes()) +
           bytes.substr(shard.index_offset, shard.index_bytes()) +
           bytes.substr(shard.mask_offset, shard.mask_bytes());
  }
  // The file offset of byte `at` of the payload.
  [[nodiscard]] std::uint64_t place_of(std::uint64_t at) const {
    if (at < shard_.data_bytes()) return shard_.data_offset + at;
    at -= shard_.data_bytes();
    return at < shard_.index_bytes() ? shard_.index_offset + at
                                     : shard_.mask_offset + at - shard_.index_bytes();
  }

  const std::shared_ptr<Hdf5Child> child_ = Hdf5Child::shared();  // one for all files
  test::TemporaryDirectory directory_;
  std::string path_ = directory_.file("shard_00000.h5");
  std::string good_;
  Shard shard_;
};

TEST_P(ShardDamage, TruncationAtAnyLengthIsFound) {
  std::vector<std::size_t> lengths = {0, 1, 7, 8, 47, 48, 49, good_.size() - 1, good_.size() - 2};
  for (std::size_t length = 64; length < good_.size(); length += 201)
    lengths.push_back(length);
  for (const std::size_t length : lengths)
    EXPECT_TRUE(is_found(good_.substr(0, length))) << length << " bytes";
}

TEST_P(ShardDamage, EveryFlippedBitOfThePayloadIsFound) {
  const Philox random = Philox::keyed(1, RandomPurpose::test);
  for (std::uint64_t trial = 0; trial < 150; ++trial) {
    const auto words = random(1, trial);
    const std::uint64_t at =
        words[0] % (shard_.data_bytes() + shard_.index_bytes() + shard_.mask_bytes());
    std::string bytes = good_;
    char& byte = bytes[place_of(at)];
    byte = static_cast<char>(byte ^ (1 << (words[1] % 8)));
    EXPECT_TRUE(is_found(bytes)) << "payload byte " << at;
  }
}

TEST_P(ShardDamage, EveryFlippedBitElsewhereIsFoundOrHarmless) {
  for (std::size_t at = 0; at < good_.size(); ++at) {
    const bool data = at >= shard_.data_offset && at < shard_.data_offset + shard_.data_bytes();
    const bool index = at >= shard_.index_offset && at < shard_.index_offset + shard_.index_bytes();
    // Unused bytes between the parts of the file are zero.
    if (data || index || (good_[at] == 0 && at % 64 != 0)) continue;
    std::string bytes = good_;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    static_cast<void>(is_found(bytes));
  }
}

TEST_P(ShardDamage, OverwrittenRangesAreFoundOrHarmless) {
  const Philox random = Philox::keyed(2, RandomPurpose::test);
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    const auto words = random(2, trial);
    const std::size_t at = words[0] % good_.size();
    const std::size_t count = std::min<std::size_t>(good_.size() - at, 1 + words[1] % 512);
    std::string bytes = good_;
    for (std::size_t i = 0; i < count; ++i)
      bytes[at + i] = static_cast<char>(words[2] >> (i % 4 * 8));
    static_cast<void>(is_found(bytes));
  }
}

TEST_P(ShardDamage, CraftedMetadataWithRightChecksumsIsFoundOrHarmless) {
  constexpr std::uint64_t trials = 1500;
  const std::vector<fuzz::MetadataBlock> blocks = fuzz::metadata_blocks(good_);
  ASSERT_GE(blocks.size(), 6U);
  const Philox random = Philox::keyed(3, RandomPurpose::test);
  for (std::uint64_t trial = 0; trial < trials; ++trial) {
    const auto words = random(3, trial);
    const fuzz::MetadataBlock& block = blocks[words[0] % blocks.size()];
    std::string bytes = good_;
    for (std::uint32_t i = 0; i <= words[1] % 3; ++i) {
      const std::size_t at = block.first + (words[2] + i * words[3]) % block.bytes;
      const char values[] = {'\0', '\1', '\x7f', '\x80', '\xff', static_cast<char>(words[3])};
      bytes[at] = values[(words[3] >> (8 * i)) % std::size(values)];
    }
    fuzz::repair(bytes, block);
    static_cast<void>(is_found(bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ShardDamage,
                         testing::Values(DamagedKind{DataKind::tokens},
                                         DamagedKind{DataKind::tokens, true},
                                         DamagedKind{DataKind::images}),
                         [](const auto& info) {
                           return std::string(info.param.masked ? "masked_" : "") +
                                  std::string(name_of(info.param.kind));
                         });

class Verify : public testing::Test {
 protected:
  test::TemporaryDirectory directory_;
};

TEST_F(Verify, NamesTheBrokenShardAndGoesOn) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(100, 250), 40, 250);
  const std::string broken = directory_.file("shard_00001.h5");
  std::string bytes = read_text(broken);
  bytes[open_shard(broken).data_offset + 3] ^= 1;
  write_text(broken, bytes);

  const std::vector<ShardReport> reports = verify_dataset(directory_.path());

  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[0].problem, "");
  EXPECT_NE(reports[1].problem.find(broken), std::string::npos);
  EXPECT_NE(reports[1].problem.find("block 0 (tokens 0 to 39 of this shard)"), std::string::npos)
      << reports[1].problem;
  EXPECT_EQ(reports[2].problem, "");
}

TEST_F(Verify, FindsAChangedByteThatIsStillAValidToken) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(100, 250), 100, 250);
  const std::string path = directory_.file("shard_00000.h5");
  std::string bytes = read_text(path);
  bytes[open_shard(path).data_offset] ^= 1;
  write_text(path, bytes);

  EXPECT_NE(verify_dataset(directory_.path())[0].problem.find("block 0 ("), std::string::npos);
}

TEST_F(Verify, FindsDocumentOffsetsThatDoNotRise) {
  test::write_token_shard(directory_.file("shard_00000.h5"), test::token_header(100, 250),
                          test::counting_tokens(100, 250), {0, 50, 50, 100});
  EXPECT_NE(verify_dataset(directory_.path())[0].problem.find("document offset 2 is 50"),
            std::string::npos);
}

TEST_F(Verify, FindsShardsOfDifferentDataSets) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(100, 250), 50, 250);
  ShardHeader other = test::token_header(50, 200);
  other.shard_index = 1;
  other.shard_count = 2;
  test::write_token_shard(directory_.file("shard_00001.h5"), other, test::counting_tokens(50, 200));

  const std::vector<ShardReport> reports = verify_dataset(directory_.path());

  ASSERT_EQ(reports.size(), 3U);
  EXPECT_NE(reports[2].problem.find("vocabulary is 200, but 250"), std::string::npos)
      << reports[2].problem;
}

}  // namespace
}  // namespace trireme
