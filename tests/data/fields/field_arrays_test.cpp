// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files and .npz archives, read in place.
#include <gmock/gmock.h>

#include "tests/data/fields/field_data.h"
#include "tests/data/fields/make_arrays.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;

class FieldArrays : public FieldData {
 protected:
  FieldOptions arrays(const std::string& inputs, const std::string& targets) const {
    return {{.files = {path(inputs)},
             .target_files = {path(targets)},
             .samples = SampleUnit::axis,
             .inputs = {"array"},
             .target = {"array"},
             .axes = "NHW"}};
  }
  FieldOptions archive(const std::string& name) const {
    return {{.files = {path(name)},
             .samples = SampleUnit::axis,
             .inputs = {"x"},
             .target = {"y"},
             .axes = "NHW"}};
  }
  void refuse(const std::string& bytes, const std::string& what) const {
    write_bytes(path("bad.npy"), bytes);
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open_fields(arrays("bad.npy", "y.npy"), 1)); },
        "bad.npy", what);
  }
  static std::vector<float> ramp(std::size_t count) { return floats(counting(count)); }
};

TEST_F(FieldArrays, InputsAndLabelsInFilesOfTheirOwnAreReadInPlace) {
  write_bytes(path("x.npy"), npy_bytes<float>("<f4", "(3, 4, 5)", ramp(60)));
  write_bytes(path("y.npy"), npy_bytes<std::int64_t>("<i8", "(3,)", {2, 0, 1}));
  const auto data = open_fields(arrays("x.npy", "y.npy"), 1);
  std::int32_t label = -1;
  EXPECT_EQ(values(*data, 1, &label), floats(counting(20, 20)));
  EXPECT_EQ(label, 0);

  write_bytes(path("big.npy"), npy_bytes<std::uint16_t>(">u2", "(2, 2, 1)", {256, 512, 1, 768}));
  write_bytes(path("text.npy"),
              npy_bytes<std::uint32_t>("<U3", "(2,)", {'d', 'o', 'g', 0xe9, 0x1f600, 0}));
  const auto texts = open_fields(arrays("big.npy", "text.npy"), 1);
  EXPECT_THAT(values(*texts, 0, &label), ElementsAre(1, 2));
  EXPECT_THAT(texts->id_names().classes, ElementsAre("dog", "\xc3\xa9\xf0\x9f\x98\x80"));
  EXPECT_EQ(label, 0);
}

TEST_F(FieldArrays, StoredAndDeflatedMembersOfAnArchiveGiveTheSameNumbers) {
  const std::vector<std::pair<std::string, std::string>> members = {
      {"x.npy", npy_bytes<float>("<f4", "(3, 4, 5)", ramp(60))},
      {"y.npy", npy_bytes<std::uint8_t>("|b1", "(3,)", {1, 0, 1})},
      {"notes.txt", "text"}};
  write_bytes(path("stored.npz"), zip_bytes(members, false));
  write_bytes(path("packed.npz"), zip_bytes(members, true));
  for (const char* const name : {"stored.npz", "packed.npz"}) {
    const auto data = open_fields(archive(name), 1);
    std::int32_t label = -1;
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(values(*data, i, &label), floats(counting(20, 20.0 * static_cast<double>(i))));
      EXPECT_EQ(label, i == 1 ? 0 : 1);
    }
    EXPECT_LE(data->decoded_chunks().count, 1U);
  }
  FieldOptions small = archive("packed.npz");
  small.cache_megabytes = 0.0001;
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open_fields(small, 1)); }, "packed.npz: x",
      "data.cache_megabytes", "numpy.savez");
  small.inputs = {"z"};
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open_fields(small, 1)); }, "holds no z",
      "the first of its 2 arrays is x");
  small.samples = SampleUnit::group;
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open_fields(small, 1)); }, "have no groups");
}

TEST_F(FieldArrays, UnreadableArraysAreRefusedByNameWithTheFix) {
  write_bytes(path("y.npy"), npy_bytes<std::int64_t>("<i8", "(3,)", {2, 0, 1}));
  refuse(npy_bytes<float>("<f4", "(3, 4, 5)", ramp(60), "True"), "ascontiguousarray");
  refuse(npy_bytes<float>("|O", "(3, 4, 5)", ramp(60)), "Python objects");
  refuse(npy_bytes<float>("<c8", "(3, 4, 5)", ramp(120)), "astype");
  refuse(npy_bytes<float>("<f4", "(3, 4, 6)", ramp(60)), "the file is truncated");
  refuse(npy_bytes<float>("<f4", "(3, 99999999999, 99999999999, 99999999999)", ramp(60)),
         "the file is truncated");
  refuse(npy_bytes<float>("<f4", "(1,1,1,1,1,1,1,1,1)", ramp(1)), "more than 8 axes");
  refuse(npy_bytes<float>("<f4", "(99999999999999999999999,)", ramp(1)), "too large");
  refuse(npy_bytes<float>("<f4", "3", ramp(60)), "unknown shape");
  // As numpy does.
  for (const char* const shape :
       {"(60)", "(3 20,)", "(3, 20", "(3,, 20)", "(03, 20)", "(-3, -20)", "(3; 20)"})
    refuse(npy_bytes<float>("<f4", shape, ramp(60)), "the file is damaged");
  for (const char* const type : {"<f4x", "f4", "4<f", "<f"})
    refuse(npy_bytes<float>(type, "(3, 20)", ramp(60)), "bad.npy");
  refuse(npy_bytes<float>("|b4", "(3, 20)", ramp(60)), "astype");
  refuse(npy_bytes<float>("<f4", "(3, 20)", ramp(60), "Frue"), "unknown order");
  std::string changed = npy_bytes<float>("<f4", "(3, 4, 5)", ramp(60));
  for (const auto& [at, byte] : {std::pair(6, '\4'), std::pair(7, '\1'), std::pair(10, '['),
                                 std::pair(12, 'x'), std::pair(100, '!')}) {
    std::string bytes = changed;
    bytes[static_cast<std::size_t>(at)] = byte;
    refuse(bytes, "array: has");
  }
  refuse(std::string("\x93NUMPY\x01\x00\xff\xff", 10), "truncated");
}

TEST_F(FieldArrays, AChangedNumberInAnArchiveIsRefused) {
  for (const bool deflated : {false, true}) {
    std::string bytes = zip_bytes({{"x.npy", npy_bytes<float>("<f4", "(3, 4, 5)", ramp(60))},
                                   {"y.npy", npy_bytes<std::uint8_t>("|u1", "(3,)", {1, 0, 1})}},
                                  deflated);
    const std::size_t recorded = bytes.find("PK\x01\x02") + 16, number = 250;
    for (const std::size_t at : {recorded, number}) {
      if (at == number && deflated) continue;
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 1);
      write_bytes(path("a.npz"), changed);
      expect_error(
          ExitCode::data, [&] { static_cast<void>(open_fields(archive("a.npz"), 1)); }, "a.npz: x",
          "CRC-32");
    }
  }
}

// Every cut and many changes of single bytes of both kinds: an error with the file's name, or
// numbers.
TEST_F(FieldArrays, DamagedFilesNeverCrash) {
  const std::string stored =
      zip_bytes({{"x.npy", npy_bytes<float>("<f4", "(3, 4, 5)", ramp(60))},
                 {"y.npy", npy_bytes<std::uint8_t>("|u1", "(3,)", {1, 0, 1})}},
                false);
  const std::string packed =
      zip_bytes({{"x.npy", npy_bytes<float>("<f4", "(3, 4, 5)", ramp(60))},
                 {"y.npy", npy_bytes<std::uint8_t>("|u1", "(3,)", {1, 0, 1})}},
                true);
  const auto open_and_read = [&](const std::string& bytes) {
    write_bytes(path("a.npz"), bytes);
    try {
      const auto data = open_fields(archive("a.npz"), 1);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(data->size(), 3); ++i)
        static_cast<void>(values(*data, i));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << error.what();
    }
  };
  const auto child = Hdf5Child::shared();
  for (const std::string& whole : {stored, packed}) {
    for (std::size_t at = 0; at < whole.size(); at += 7)
      open_and_read(whole.substr(0, at));
    for (std::size_t at = 0; at < whole.size(); at += 3) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (at % 2 == 0 ? 0xff : 0x10));
      open_and_read(changed);
    }
  }
}

}  // namespace
}  // namespace trireme::test
