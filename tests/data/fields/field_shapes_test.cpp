// SPDX-License-Identifier: Apache-2.0
// Labels in files of their own, groups at any depth, rows of one-hot labels, signals and tables.
#include <gmock/gmock.h>

#include <lz4.h>

#include "data/fields/storage/filters.h"
#include "data/loader/sampler.h"
#include "tests/data/fields/field_data.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;

std::vector<std::int32_t> labels(const FieldDataset& data) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(data.size()));
  for (std::size_t i = 0; i < all.size(); ++i)
    data.read_targets(static_cast<std::int64_t>(i), {&all[i], 1});
  return all;
}

class FieldShapes : public FieldData {
 protected:
  // a.h5 with 3 images (2, 2) and b.h5 with 4.
  FieldOptions two_files() const {
    for (const auto& [name, count] : {std::pair{"a.h5", 3U}, {"b.h5", 4U}}) {
      const H5 file = make_hdf5(path(name));
      write_field(file, "x", {.extents = {count, 2, 2}}, counting(count * 4));
    }
    return {{.files = {path("a.h5"), path("b.h5")},
             .target_files = {path("labels.h5")},
             .samples = SampleUnit::axis,
             .inputs = {"x"},
             .target = {"y"},
             .axes = "NHW"}};
  }
};

TEST_F(FieldShapes, OneLabelFileGivesEachFileItsRowsInEveryLayout) {
  FieldOptions options = two_files();
  std::vector<double> y(7 * 100);
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = i % 100 == 0 ? static_cast<double>(i / 100 % 5) : 9;
  std::vector<double> column(7);
  for (std::size_t i = 0; i < 7; ++i)
    column[i] = y[i * 100];
  const std::vector<FieldSpec> layouts = {
      {.extents = {7}, .type = H5T_STD_I32LE},                                      // in the index
      {.extents = {7, 1, 1}, .type = H5T_STD_I64BE},                                // in the index
      {.extents = {7}, .type = H5T_STD_I32LE, .chunk = {2}, .storage = deflated()}  // virtual
  };
  for (const FieldSpec& layout : layouts) {
    {
      const H5 file = make_hdf5(path("labels.h5"));
      write_field(file, "y", layout, column);
    }
    const auto data = open_fields(options, 1);
    EXPECT_THAT(labels(*data), ElementsAre(0, 1, 2, 3, 4, 0, 1));
    EXPECT_THAT(data->files(), testing::Contains(path("labels.h5")));
  }
  // Many numbers per row are read where they lie.
  {
    const H5 file = make_hdf5(path("labels.h5"));
    write_field(file, "y", {.extents = {7, 100}}, y);
  }
  options.predicted = {TargetKind::values, Shape{}, 0};
  const auto data = open_fields(options, 1);
  std::vector<std::int32_t> row(100);
  data->read_targets(4, row);
  EXPECT_EQ(std::bit_cast<float>(row[0]), 4);
  EXPECT_EQ(std::bit_cast<float>(row[99]), 9);
}

TEST_F(FieldShapes, LabelFilesJoinOneAfterAnotherAndKeepTheirIndex) {
  const FieldOptions one = two_files();
  FieldOptions options = one;
  options.target_files = {path("l0.h5"), path("l1.h5")};
  {
    const H5 first = make_hdf5(path("l0.h5")), second = make_hdf5(path("l1.h5"));
    write_field(first, "y", {.extents = {3}, .type = H5T_STD_U8LE}, {4, 5, 6});
    write_field(second, "y", {.extents = {4}, .type = H5T_STD_U8LE}, {0, 1, 2, 3});
  }
  const auto data = open_fields(options, 1);
  EXPECT_THAT(labels(*data), ElementsAre(4, 5, 6, 0, 1, 2, 3));
  data->keep_index(path("index"));
  const auto files = expand_files(options.files);
  KeptIndexes kept = kept_indexes(path("index"), scan_request(options), files);
  KeptIndexes targets =
      kept_indexes(targets_index(path("index")), target_request(options), options.target_files);
  ASSERT_EQ(kept.indexes.size(), 2U);
  ASSERT_EQ(targets.indexes.size(), 2U);
  const FieldDataset again(kept.indexes, options, targets.indexes);
  EXPECT_EQ(again.fingerprint(), data->fingerprint());
  EXPECT_THAT(labels(again), ElementsAre(4, 5, 6, 0, 1, 2, 3));
}

TEST_F(FieldShapes, AnotherNumberOfRowsIsRefusedWithBothCounts) {
  const FieldOptions options = two_files();
  const auto with_rows = [&](hsize_t rows) {
    {
      const H5 file = make_hdf5(path("labels.h5"));
      write_field(file, "y", {.extents = {rows}, .type = H5T_STD_I32LE}, counting(rows));
    }
    return [&] { static_cast<void>(open_fields(options, 1)); };
  };
  expect_error(ExitCode::data, with_rows(6), "data.target_files", "6 rows of y", "b.h5");
  expect_error(ExitCode::data, with_rows(8), "data.target_files", "8 rows of y", "7 samples");
}

TEST_F(FieldShapes, RowsAreFoundByTheNamesOfFiles) {
  for (const char* const name : {"p.h5", "q.h5", "r.h5"})
    static_cast<void>(write_sample(name, 0, {.extents = {4, 5, 3}}));
  {
    const H5 file = make_hdf5(path("labels.hdf5"));
    write_texts(file, "file", {"r.h5", "folder/p", "q.h5"}, 0);
    write_texts(file, "y", {"cat", "dog", "bird"}, 0);
  }
  FieldOptions options{{.files = {path("[pqr].h5")},
                        .target_files = {path("labels.hdf5")},
                        .target_names = "file",
                        .inputs = {"climate/data"},
                        .target = {"y"}}};
  const auto data = open_fields(options, 1);
  EXPECT_THAT(data->id_names().classes, ElementsAre("bird", "cat", "dog"));
  EXPECT_THAT(labels(*data), ElementsAre(2, 0, 1));
  {
    const H5 file = make_hdf5(path("labels.hdf5"));
    write_texts(file, "file", {"r.h5", "p.h5", "p.h5"}, 0);
    write_texts(file, "y", {"cat", "dog", "bird"}, 0);
  }
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open_fields(options, 1)); }, "names p.h5 twice");
  {
    const H5 file = make_hdf5(path("labels.hdf5"));
    write_texts(file, "file", {"r.h5", "p.h5"}, 0);
    write_texts(file, "y", {"cat", "dog"}, 0);
  }
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open_fields(options, 1)); }, "q.h5",
      "names neither q.h5 nor q");
}

TEST_F(FieldShapes, RowsOfOneHotLabelsAreClasses) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {3, 2, 2}}, counting(12));
    write_field(file, "y", {.extents = {3, 4}}, {0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1});
    write_field(file, "two", {.extents = {3, 2}}, {1, 0, 1, 1, 0, 0});
    write_field(file, "soft", {.extents = {3, 2}}, {0.5, 0.5, 1, 0, 0, 1});
  }
  FieldOptions options{{.files = {path("a.h5")},
                        .samples = SampleUnit::axis,
                        .inputs = {"x"},
                        .target = {"y"},
                        .axes = "NHW"}};
  options.predicted.classes = 4;
  EXPECT_THAT(labels(open(options)), ElementsAre(2, 0, 3));
  options.predicted.classes = 5;
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open(options)); }, "rows of 4 numbers",
      "model.classes: 4");
  options.predicted.classes = 2;
  options.target = {"two"};
  EXPECT_EQ(label(open(options), 0), 0);
  expect_error(
      ExitCode::data, [&] { static_cast<void>(label(open(options), 1)); },
      "sample 1 has 1 as number 1");
  expect_error(
      ExitCode::data, [&] { static_cast<void>(label(open(options), 2)); },
      "sample 2 has 0 as number 0");
  options.target = {"soft"};
  expect_error(
      ExitCode::data, [&] { static_cast<void>(label(open(options), 0)); }, "sample 0 has 0.5");
}

TEST_F(FieldShapes, ATextLabelThatTrainingNeverSeesIsRefused) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {4, 2, 2}}, counting(16));
    write_texts(file, "y", {"cat", "dog", "cat", "bird"}, 0);
    write_field(file, "part", {.extents = {4}, .type = H5T_STD_I32LE}, {0, 0, 1, 2});
  }
  FieldOptions options{{.files = {path("a.h5")},
                        .split_key = "part",
                        .validation_values = {"1"},
                        .samples = SampleUnit::axis,
                        .inputs = {"x"},
                        .target = {"y"},
                        .axes = "NHW"}};
  options.subset = Subset::training;
  EXPECT_EQ(open(options).held_back()->size(), 1);
  options.validation_values = {"2"};
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open(options).held_back()); }, "a.h5, sample 3",
      "bird", "no training sample");
}

// As robomimic's files: data/demo_N with steps of several ranks, and lists of names.
class Demonstrations : public FieldData {
 protected:
  FieldOptions write() const {
    {
      const H5 file = make_hdf5(path("a.h5"));
      for (const unsigned demo : {0U, 1U, 2U, 10U}) {
        const std::string group = fmt::format("data/demo_{}/", demo);
        const hsize_t steps = 2 + demo % 3;
        write_field(file, group + "obs/image", {.extents = {steps, 2, 2, 3}, .type = H5T_STD_U8LE},
                    counting(steps * 12, demo));
        write_field(file, group + "obs/place", {.extents = {steps, 2}},
                    counting(steps * 2, 100.0 * demo));
        write_field(file, group + "actions", {.extents = {steps, 7}}, counting(steps * 7, demo));
      }
      const H5 mask(H5Gcreate2(file, "mask", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
      write_texts(mask, "train", {"demo_10", "demo_0"}, 8);
      write_texts(mask, "valid", {"demo_2"}, 8);
      write_texts(mask, "wrong", {"demo_2", "demo_7"}, 8);
    }
    FieldOptions options{{.files = {path("a.h5")},
                          .samples = SampleUnit::group,
                          .groups = "data/demo_*",
                          .inputs = {"obs/image", "obs/place"},
                          .target = {"actions"},
                          .axes = "NHWC NC"}};
    options.predicted = {TargetKind::values, Shape{7}, 0};
    return options;
  }
};

TEST_F(Demonstrations, StepsOfNestedGroupsAreSamplesAndInputsMayHaveOtherRanks) {
  const FieldOptions options = write();
  const FieldDataset data = open(options);
  ASSERT_EQ(data.size(), 2 + 3 + 3 + 4);  // demo_0, demo_1, demo_10, demo_2
  EXPECT_EQ(data.layout().inputs, (Shape{2, 2, 5}));
  // The second step of demo_10: its position in a channel each, the same for all pixels.
  std::vector<std::int32_t> actions(7);
  data.read_targets(6, actions);
  EXPECT_EQ(std::bit_cast<float>(actions[6]), 10 + 7 + 6);
  std::vector<float> sample(20);
  data.read(6, std::as_writable_bytes(std::span(sample)), actions);
  for (std::size_t pixel = 0; pixel < 4; ++pixel) {
    EXPECT_EQ(sample[pixel * 5], 10 + 12 + static_cast<float>(pixel) * 3);
    EXPECT_EQ(sample[pixel * 5 + 3], 1002);
    EXPECT_EQ(sample[pixel * 5 + 4], 1003);
  }
}

TEST_F(Demonstrations, AListNamesTheGroupsOfAPart) {
  FieldOptions options = write();
  options.group_list = "mask/train";
  EXPECT_EQ(open(options).size(), 2 + 3);
  const std::uint64_t training = open(options).fingerprint();
  options.group_list = "mask/valid";
  EXPECT_EQ(open(options).size(), 4);
  EXPECT_NE(open(options).fingerprint(), training);
  options.group_list = "mask/wrong";
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open(options)); }, "mask/wrong", "names demo_7",
      "data/demo_*");
  options.group_list = "data/demo_0/actions";
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open(options)); }, "holds numbers",
      "data.group_list");
  options.group_list.clear();
  options.groups = "data/run_*";
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open(options)); }, "no groups like data/run_*");
}

TEST_F(FieldShapes, SignalsAndTablesAreSamplesOfHeightOne) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "signals", {.extents = {3, 2, 5}, .type = H5T_STD_I16LE}, counting(30));
    write_field(file, "table", {.extents = {3, 4}, .chunk = {2, 4}, .storage = deflated()},
                counting(12));
    write_field(file, "y", {.extents = {3}, .type = H5T_STD_I32LE}, {0, 1, 1});
  }
  FieldOptions options{{.files = {path("a.h5")},
                        .samples = SampleUnit::axis,
                        .inputs = {"signals"},
                        .target = {"y"},
                        .axes = "NCW"}};
  const FieldDataset signals = open(options);
  EXPECT_EQ(signals.layout().inputs, (Shape{1, 5, 2}));
  EXPECT_THAT(values(signals, 1), ElementsAre(10, 15, 11, 16, 12, 17, 13, 18, 14, 19));
  options.inputs = {"table"};
  options.axes = "NC";
  const FieldDataset table = open(options);
  EXPECT_EQ(table.layout().inputs, (Shape{1, 1, 4}));
  EXPECT_THAT(values(table, 2), ElementsAre(8, 9, 10, 11));
}

// Bit by bit, as Masui et al. (2015) define it.
std::vector<std::byte> shuffled_bits(const std::vector<std::byte>& from, std::size_t element) {
  const std::size_t count = from.size() / element;
  std::vector<std::byte> to(from.size());
  for (std::size_t e = 0; e < count; ++e) {
    for (std::size_t bit = 0; bit < element * 8; ++bit) {
      const auto set = from[e * element + bit / 8] >> (bit % 8) & std::byte{1};
      to[bit * count / 8 + e / 8] |= set << (e % 8);
    }
  }
  return to;
}

void append_big_endian(std::vector<std::byte>& to, std::uint64_t value, int bytes) {
  while (bytes-- > 0)
    to.push_back(static_cast<std::byte>(value >> (8 * bytes)));
}

// Two blocks of 16 elements, one of 8, and 3 elements as they are.
TEST(Bitshuffle, PlainAndCompressedBlocksBecomeTheNumbersAgain) {
  constexpr std::size_t element = 4, block = 16, count = 43;
  std::vector<std::byte> numbers(count * element);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<std::byte>(i * 37 + i / 5);
  for (const std::uint32_t compression : {0U, 2U}) {
    std::vector<std::byte> stored;
    if (compression != 0) {
      append_big_endian(stored, numbers.size(), 8);
      append_big_endian(stored, block * element, 4);
    }
    for (std::size_t first = 0; first < 40; first += block) {
      const std::size_t size = std::min(block, 40 - first);
      const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(first * element);
      std::vector<std::byte> part =
          shuffled_bits({begin, begin + static_cast<std::ptrdiff_t>(size * element)}, element);
      if (compression != 0) {
        std::vector<char> packed(1000);
        const int bytes =
            LZ4_compress_default(reinterpret_cast<const char*>(part.data()), packed.data(),
                                 static_cast<int>(part.size()), static_cast<int>(packed.size()));
        append_big_endian(stored, static_cast<std::uint64_t>(bytes), 4);
        part.assign(reinterpret_cast<std::byte*>(packed.data()),
                    reinterpret_cast<std::byte*>(packed.data()) + bytes);
      }
      stored.insert(stored.end(), part.begin(), part.end());
    }
    stored.insert(stored.end(), numbers.end() - 3 * static_cast<std::ptrdiff_t>(element),
                  numbers.end());
    const std::vector<FilterStep> filters{{32008, "", {0, 4, element, block, compression}}};
    std::vector<std::byte> decoded(numbers.size());
    ChunkDecoder decoder;
    decoder.decode(filters, 0, stored, decoded);
    EXPECT_EQ(decoded, numbers) << compression;

    // Any cut or changed byte is an error or other numbers, never a crash.
    for (std::size_t at = 0; at < stored.size(); ++at) {
      std::vector<std::byte> changed = stored;
      changed[at] ^= std::byte{0xff};
      for (const std::span<const std::byte> bad :
           {std::span<const std::byte>(changed), std::span<const std::byte>(stored).first(at)}) {
        try {
          decoder.decode(filters, 0, bad, decoded);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ExitCode::data);
        }
      }
    }
  }
}

// 40 chunks of 8 samples, and memory for 17 of them.
TEST_F(FieldShapes, BlocksOfAChunkAreDecodedOnceInAPass) {
  constexpr std::uint64_t samples = 317, chunk = 8;
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x",
                {.extents = {samples, 8, 8}, .chunk = {chunk, 8, 8}, .storage = deflated()},
                counting(samples * 64));
    write_field(file, "y", {.extents = {samples}, .type = H5T_STD_I32LE},
                std::vector<double>(samples, 0));
  }
  FieldOptions options{{.files = {path("a.h5")},
                        .samples = SampleUnit::axis,
                        .inputs = {"x"},
                        .target = {"y"},
                        .axes = "NHW",
                        .cache_megabytes = 35 * chunk * 64 * 4 / 1e6}};
  const auto decodes = [&](std::int64_t block) {
    const FieldDataset data = open(options);
    EXPECT_EQ(data.samples_of_chunk(), static_cast<std::int64_t>(chunk));
    const Sampler sampler({.samples = data.size(),
                           .global_batch = 1,
                           .seed = 3,
                           .block = block == 0 ? data.samples_of_chunk() : block});
    for (std::int64_t i = 0; i < data.size(); ++i)
      static_cast<void>(values(data, sampler.at(i, 0).sample));
    return data.decoded_chunks();
  };
  EXPECT_EQ(decodes(0).count, 40U);
  EXPECT_EQ(decodes(0).again, 0U);
  options.cache_megabytes = 17 * chunk * 64 * 4 / 1e6;
  EXPECT_GT(decodes(1).again, 100U);
}

// Rows 1, 3, 5 of the first source at places 0, 2, 4, and every second column of two of the
// other's.
TEST_F(FieldShapes, SelectionsWithStridesAreReadFromTheirSources) {
  for (int i = 0; i < 2; ++i) {
    const H5 file = make_hdf5(path(fmt::format("part_{}.h5", i)));
    write_field(file, "x", {.extents = {6, 8}, .chunk = {4, 3}, .storage = deflated()},
                counting(48, 100.0 * i));
  }
  {
    const H5 file = make_hdf5(path("all.h5"));
    const H5 properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    using Two = std::array<hsize_t, 2>;
    const Two extents{6, 4}, of_source{6, 8};
    const H5 space(H5Screate_simple(2, extents.data(), nullptr), H5Sclose);
    const H5 source(H5Screate_simple(2, of_source.data(), nullptr), H5Sclose);
    const auto select = [](hid_t of, Two start, Two stride, Two count, Two block) {
      ASSERT_GE(H5Sselect_hyperslab(of, H5S_SELECT_SET, start.data(), stride.data(), count.data(),
                                    block.data()),
                0);
    };
    select(space, {0, 0}, {2, 1}, {3, 1}, {1, 4});
    select(source, {1, 2}, {2, 1}, {3, 1}, {1, 4});
    ASSERT_GE(H5Pset_virtual(properties, space, "part_0.h5", "x", source), 0);
    select(space, {1, 0}, {2, 1}, {2, 1}, {1, 4});
    select(source, {0, 1}, {1, 2}, {2, 4}, {1, 1});
    ASSERT_GE(H5Pset_virtual(properties, space, "part_1.h5", "x", source), 0);
    ASSERT_GE(H5Sselect_all(space), 0);
    const H5 data(
        H5Dcreate2(file, "data", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT),
        H5Dclose);
    write_field(file, "label", {.extents = {1}, .type = H5T_STD_I32LE}, {4});
  }
  const auto data = open_fields(
      {{.files = {path("all.h5")}, .inputs = {"data"}, .target = {"label"}, .axes = "HW"}}, 1);
  std::vector<float> sample(24);
  std::int32_t label = 0;
  data->read(0, std::as_writable_bytes(std::span(sample)), {&label, 1});
  const std::vector<float> wanted = {10,  11,  12,  13,   // row 1 from column 2
                                     101, 103, 105, 107,  // row 0
                                     26,  27,  28,  29,   // row 3
                                     109, 111, 113, 115,  // row 1
                                     42,  43,  44,  45,   // row 5
                                     0,   0,   0,   0};   // no source
  EXPECT_EQ(sample, wanted);
}

}  // namespace
}  // namespace trireme::test
