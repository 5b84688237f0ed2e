// SPDX-License-Identifier: Apache-2.0
// Chunks of every index type, written as by other programs, are found where the library reads them.
#include <gmock/gmock.h>

#include "tests/data/edit_shard.h"
#include "tests/data/fields/field_data.h"
#include "tests/data/fields/make_fields.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

constexpr hsize_t grows = H5S_UNLIMITED;
const std::vector<hsize_t> extents{9, 7, 3};

struct Index {
  const char* name;
  std::vector<hsize_t> most;
  std::vector<hsize_t> chunk = {4, 4, 2};
  std::function<void(hid_t)> storage{};
};

void PrintTo(const Index& index, std::ostream* out) {
  *out << index.name;
}

class FieldIndexes : public FieldData, public testing::WithParamInterface<Index> {
 protected:
  // All values, or, for data that is -5 elsewhere, a part that leaves chunks unwritten.
  std::vector<float> write(hid_t file, bool all) const {
    FieldSpec spec{.extents = extents, .chunk = GetParam().chunk, .most = GetParam().most};
    spec.storage = [](hid_t properties) {
      const float fill = -5;
      EXPECT_GE(H5Pset_fill_value(properties, H5T_NATIVE_FLOAT, &fill), 0);
      if (GetParam().storage) GetParam().storage(properties);
    };
    const std::vector<double> values = counting(count_of(extents), 1);
    write_attribute(file, "label", 1);
    write_field(file, "climate/data", spec, all ? values : std::vector<double>{});
    if (all) return floats(values);
    const H5 data(H5Dopen2(file, "climate/data", H5P_DEFAULT), H5Dclose);
    const H5 space(H5Dget_space(data), H5Sclose);
    const hsize_t start[] = {4, 0, 2}, count[] = {5, 4, 1}, line = 20;
    EXPECT_GE(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr), 0);
    const H5 memory(H5Screate_simple(1, &line, nullptr), H5Sclose);
    EXPECT_GE(H5Dwrite(data, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, values.data()), 0);
    std::vector<float> expected(values.size(), -5);
    for (std::size_t i = 0; i < 20; ++i)
      expected[((4 + i / 4) * 7 + i % 4) * 3 + 2] = static_cast<float>(i + 1);
    return expected;
  }
};

TEST_P(FieldIndexes, AllChunksAreFound) {
  for (const bool newest : {false, true}) {
    const std::vector<float> written = write(make_hdf5(path("a.h5"), newest), true);

    EXPECT_EQ(values(open(options()), 0), written) << "newest format: " << newest;
  }
}

TEST_P(FieldIndexes, ChunksThatWereNeverWrittenAreTheFillValue) {
  for (const bool newest : {false, true}) {
    const std::vector<float> written = write(make_hdf5(path("a.h5"), newest), false);

    EXPECT_EQ(values(open(options()), 0), written) << "newest format: " << newest;
  }
}

TEST_P(FieldIndexes, BehindAUserBlockTheyAreFoundToo) {
  const std::vector<float> written = write(make_hdf5(path("a.h5"), true, 1024), true);

  EXPECT_EQ(values(open(options()), 0), written);
}

std::function<void(hid_t)> whole_chunks_alone_deflated() {
  return [](hid_t properties) {
    deflated()(properties);
    EXPECT_GE(H5Pset_chunk_opts(properties, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS), 0);
  };
}

std::function<void(hid_t)> allocated_early() {
  return [](hid_t p) { EXPECT_GE(H5Pset_alloc_time(p, H5D_ALLOC_TIME_EARLY), 0); };
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, FieldIndexes,
    testing::Values(
        Index{"single", {}, extents}, Index{"implicit", {}, {4, 4, 2}, allocated_early()},
        Index{"fixed", {}}, Index{"fixed_that_may_grow", {20, 30, 9}},
        Index{"extensible_first", {grows, 7, 3}}, Index{"extensible_second", {9, grows, 3}},
        Index{"extensible_last", {9, 7, grows}}, Index{"extensible_last_of_larger", {20, 8, grows}},
        Index{"extensible_last_deflated", {9, 7, grows}, {4, 4, 2}, deflated()},
        Index{"tree", {grows, 7, grows}},
        Index{"tree_deflated", {grows, grows, 3}, {2, 7, 3}, deflated()},
        Index{"fixed_partial_unfiltered", {}, {4, 4, 2}, whole_chunks_alone_deflated()},
        Index{"extensible_partial_unfiltered",
              {9, grows, 3},
              {4, 4, 2},
              whole_chunks_alone_deflated()},
        Index{"tree_partial_unfiltered",
              {grows, 7, grows},
              {4, 4, 3},
              whole_chunks_alone_deflated()}),
    [](const auto& info) { return info.param.name; });

TEST_F(FieldData, BehindAUserBlockContiguousDataAreFoundAndUnwrittenOnesAreTheFillValue) {
  const FieldSpec spec{.extents = extents};
  {
    const H5 file = make_hdf5(path("a.h5"), false, 512);
    write_field(file, "climate/data", spec, counting(count_of(extents)));
    write_field(file, "climate/none", spec, {});
    write_attribute(file, "label", 1);
  }
  FieldOptions none = options();
  none.inputs = {"climate/none"};

  EXPECT_EQ(values(open(options()), 0), floats(counting(count_of(extents))));
  EXPECT_EQ(values(open(none), 0), std::vector<float>(count_of(extents)));
}

TEST_F(FieldData, AnIndexOfChunksThatCannotBeReadIsNotOneWithoutChunks) {
  for (const char* const block : {"EADB", "EAIB", "FADB", "BTLF"}) {
    FieldSpec spec{.extents = {40, 7, 3}, .chunk = {4, 4, 2}};
    if (block[0] == 'E') spec.most = {40, 7, grows};
    if (block[0] == 'B') spec.most = {grows, 7, grows};
    {
      const H5 file = make_hdf5(path("a.h5"), true);
      write_attribute(file, "label", 1);
      write_field(file, "climate/data", spec, counting(40 * 7 * 3));
    }
    std::string bytes = read_text(path("a.h5"));
    const auto at = bytes.find(block);
    ASSERT_NE(at, std::string::npos) << block;
    bytes[at + 10] = static_cast<char>(bytes[at + 10] ^ 0x55);
    write_text(path("a.h5"), bytes);

    expect_error(
        ExitCode::data, [&] { static_cast<void>(open(options())); }, path("a.h5"), "/climate/data");
  }
}

}  // namespace
}  // namespace trireme::test
