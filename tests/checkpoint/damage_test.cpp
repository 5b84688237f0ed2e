// SPDX-License-Identifier: Apache-2.0
// Flipped bits and cut files: each is detected and named, or is outside of all bytes that are read.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "runtime/base/checksum.h"
#include "runtime/checkpoint/files/names.h"
#include "tests/checkpoint/parts.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int cases = 1000;
constexpr std::int64_t step = 5;

class DamageTest : public test::MpiTest {
 protected:
  DamageTest() {
    test::Part part(device(), world(), {"", {}, 0, 8});
    part.fill(step);
    CheckpointSaver saver(device(), part.mesh, part.placed, part.values,
                          {.directory = directory_.path()});
    saver.save(*part.stream, step, R"({"seed": 1234})");
    saver.finish();
    path_ = directory_.file(step_directory_name(step));
    manifest_ = open_checkpoint(path_).manifest;
    for (const auto& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().filename().string();
      files_.emplace_back(name, test::read_text(entry.path().string()));
    }
    std::ranges::sort(files_);
  }

  // The reader's message; "" without damage.
  [[nodiscard]] std::string verdict() const {
    try {
      const auto damages = verify_checkpoint(path_, open_checkpoint(path_).manifest);
      return damages.empty() ? "" : damages.front().describe();
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ExitCode::checkpoint));
      return error.what();
    }
  }

  // The part of the checkpoint that a byte belongs to: a tensor, a file, or "" for a gap.
  [[nodiscard]] std::string owner_of(const std::string& name, std::uint64_t byte) const {
    const auto file = std::ranges::find(manifest_.files, name, &ManifestFile::name);
    if (file == manifest_.files.end() || byte < file->header_bytes) return name;
    for (const ValueKind kind : manifest_.kinds) {
      std::uint64_t at = file->offsets[static_cast<std::size_t>(kind)];
      for (const ManifestSlice& slice : file->slices) {
        const ManifestTensor& tensor = manifest_.tensors[static_cast<std::size_t>(slice.tensor)];
        if (!has_value(tensor.kind, kind)) continue;
        const std::uint64_t end = at + static_cast<std::uint64_t>(slice.count) * sizeof(float);
        if (byte >= at && byte < end) return fmt::format("{}/{}", name_of(kind), tensor.name);
        at = end;
      }
    }
    return "";
  }

  test::TemporaryDirectory directory_;
  std::string path_;
  Manifest manifest_;
  std::vector<std::pair<std::string, std::string>> files_;  // name, contents
};

TEST_F(DamageTest, EveryFlippedBitIsNamedOrOutsideOfTheValues) {
  ASSERT_EQ(verdict(), "");
  std::mt19937_64 random(20261121);
  int outside = 0;
  for (int i = 0; i < cases; ++i) {
    const auto& [name, text] = files_[random() % files_.size()];
    const std::uint64_t byte = random() % text.size();
    std::string changed = text;
    changed[byte] = static_cast<char>(changed[byte] ^ (1 << random() % 8));
    test::write_text(path_ + "/" + name, changed);

    const std::string said = verdict();

    const std::string owner = owner_of(name, byte);
    SCOPED_TRACE(fmt::format("case {}: {} byte {} of {}: {}", i, name, byte, owner, said));
    outside += owner.empty() ? 1 : 0;
    EXPECT_EQ(said.empty(), owner.empty());
    EXPECT_NE(said.find(owner), std::string::npos);
    test::write_text(path_ + "/" + name, text);
  }
  EXPECT_LT(outside, cases / 2);
}

TEST_F(DamageTest, EveryCutOrGrownFileIsNamed) {
  std::mt19937_64 random(7);
  for (int i = 0; i < cases; ++i) {
    const auto& [name, text] = files_[random() % files_.size()];
    const bool grow = random() % 8 == 0;
    const std::string changed = grow ? text + "x" : text.substr(0, random() % text.size());
    test::write_text(path_ + "/" + name, changed);

    const std::string said = verdict();

    EXPECT_NE(said.find(name), std::string::npos)
        << "case " << i << ": " << name << " of " << changed.size() << " bytes: " << said;
    test::write_text(path_ + "/" + name, text);
  }
}

TEST_F(DamageTest, AMissingFileIsNamed) {
  for (const auto& [name, text] : files_) {
    fs::remove(path_ + "/" + name);
    EXPECT_NE(verdict().find(name), std::string::npos) << name;
    test::write_text(path_ + "/" + name, text);
  }
}

TEST_F(DamageTest, ThePreviousCheckpointIsUsed) {
  test::Part part(device(), world(), {"", {}, 0, 8});
  part.fill(9);
  CheckpointSaver saver(device(), part.mesh, part.placed, part.values,
                        {.directory = directory_.path()});
  saver.save(*part.stream, 9, "{}");
  saver.finish();
  ASSERT_EQ(find_newest_valid(directory_.path(), world())->step, 9);
  test::write_text(directory_.file(step_directory_name(9)) + "/rank_00000.h5", "");

  const auto found = find_newest_valid(directory_.path(), world());

  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->step, step);
  restore_checkpoint(*found, device(), *part.stream, part.placed, part.values);
  EXPECT_EQ(part.wrong(step), 0);
}

TEST_F(DamageTest, ARenamedDirectoryIsRefused) {
  fs::rename(path_, directory_.file(step_directory_name(6)));
  test::expect_error(
      ExitCode::checkpoint,
      [&] { static_cast<void>(open_checkpoint(directory_.file(step_directory_name(6)))); },
      "its manifest is of step 5");
}

// Past the checksum, as an attacker would be: the text is refused or describes something harmless.
TEST_F(DamageTest, HostileManifestsAreRefusedOrConsistent) {
  const std::string text = test::read_text(path_ + "/manifest.json");
  std::mt19937_64 random(3);
  const std::string letters = "0123456789,:[]{}\"-e. \\ntrue";
  int refused = 0;
  for (int i = 0; i < cases; ++i) {
    std::string changed = text;
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits)
      changed[random() % changed.size()] = letters[random() % letters.size()];
    try {
      const Manifest manifest = parse_manifest(changed, "manifest");
      std::uint64_t elements = 0;
      for (const ManifestTensor& tensor : manifest.tensors)
        elements += static_cast<std::uint64_t>(tensor.shape.count());
      for (const ManifestFile& file : manifest.files) {
        for (const ManifestSlice& slice : file.slices)
          elements -= static_cast<std::uint64_t>(slice.count);
      }
      EXPECT_EQ(elements, 0U) << changed;
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ExitCode::checkpoint));
    }
  }
  EXPECT_GT(refused, cases / 2);
}

TEST_F(DamageTest, RefusesInvalidManifests) {
  const std::string text = test::read_text(path_ + "/manifest.json");
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& why) {
    std::string changed = text;
    const auto at = changed.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    test::expect_error(
        ExitCode::checkpoint, [&] { static_cast<void>(parse_manifest(changed, "m.json")); },
        "m.json", why);
  };
  refused("\"version\": 1", "\"version\": 2", "version");
  refused("\"step\": 5", "\"step\": 5, \"step\": 6", "'step': appears twice");
  refused("\"step\": 5", "\"step\": 5, \"more\": 6", "more: is unknown");
  refused("\"step\": 5", "\"step\": -5", "not a whole number");
  refused("\"step\": 5", "\"step\": 99999999999999999999999", "not a whole number");
  refused(R"("data":1,"pipeline":1,"tensor":1)", R"("data":99999,"pipeline":99999,"tensor":99999)",
          "has 999970000299999 ranks, too many");
  refused("rank_00000.h5", "../../rank_0.h5", "is not rank_00000.h5");
  refused("\"name\":\"a.bias\"", "\"name\":\"a/bias\"", "not a plain name");
  refused("\"name\":\"a.bias\"", "\"name\":\"a.weight\"", "appears twice");
  refused("[24]", "[4611686018427387904]", "shape");
  refused("[24]", "[48]", "exactly one slice");
  refused("\"run\":", "\"lead\":2,\"run\":", "does not divide the tensor");
  refused("\"run\":", "\"lead\":0,\"run\":", "lead");
  refused("\"values\": [\"model\", ", "\"values\": [", "lacks the model");
  refused("\"tensor\":1", "\"tensor\":2", "are of 1 ranks, not 2");
  refused("\"state\": {\"seed\":1234}", "\"state\": {\"a\":" + std::string(100000, '[') + "}",
          "nested more than 128 levels deep");
}

}  // namespace
}  // namespace trireme
