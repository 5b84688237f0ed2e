// SPDX-License-Identifier: Apache-2.0
// HDF5 metadata that leads to pipes or is damaged without a checksum.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <array>
#include <functional>

#include "tests/data/edit_shard.h"
#include "tests/data/fields/field_data.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class FieldMetadata : public FieldData {
 protected:
  std::string write(const std::string& name, const FieldSpec& spec) const {
    const H5 file = make_hdf5(path(name));
    write_field(file, "data", spec, counting(count_of(spec.extents)));
    write_field(file, "label", {.type = H5T_STD_I32LE}, {0});
    return path(name);
  }
  [[nodiscard]] FieldOptions options() const {
    return {{.files = {path("a.h5")}, .inputs = {"data"}, .target = {"label"}}};
  }
  template <typename... Parts>
  void expect_refused(const FieldOptions& options, const Parts&... parts) const {
    expect_error(
        ExitCode::data, [&] { static_cast<void>(values(open(options), 0)); }, parts...);
  }
};

// A library that opens one of them waits for ever.
TEST_F(FieldMetadata, PipesBehindLinksVirtualDataSetsAndExternalStorageAreRefused) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const auto with_data = [&](const std::function<void(hid_t)>& make) {
    const H5 file = make_hdf5(path("a.h5"));
    make(file);
    write_field(file, "label", {.type = H5T_STD_I32LE}, {0});
  };
  const auto create = [](hid_t file, hid_t type, hid_t properties, hsize_t count) {
    const H5 space(H5Screate_simple(1, &count, nullptr), H5Sclose);
    const H5 data(H5Dcreate2(file, "data", type, space, H5P_DEFAULT, properties, H5P_DEFAULT),
                  H5Dclose);
  };
  const auto external = [&](hid_t file, hid_t type) {
    const H5 properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    ASSERT_GE(H5Pset_external(properties, path("pipe").c_str(), 0, 64), 0);
    create(file, type, properties, 4);
  };
  with_data([](hid_t file) {
    ASSERT_GE(H5Lcreate_external("pipe", "/data", file, "data", H5P_DEFAULT, H5P_DEFAULT), 0);
  });
  expect_refused(options(), "pipe", "a pipe");
  with_data([&](hid_t file) {
    const H5 properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    const hsize_t count = 4;
    const H5 space(H5Screate_simple(1, &count, nullptr), H5Sclose);
    ASSERT_GE(H5Pset_virtual(properties, space, "pipe", "x", space), 0);
    create(file, H5T_IEEE_F32LE, properties, count);
  });
  expect_refused(options(), "pipe", "a pipe");
  with_data([&](hid_t file) { external(file, H5T_IEEE_F32LE); });
  expect_refused(options(), "a.h5: /data", "external storage");
  const H5 text(H5Tcopy(H5T_C_S1), H5Tclose);
  ASSERT_GE(H5Tset_size(text, 16), 0);
  with_data([&](hid_t file) { external(file, text); });
  expect_refused(options(), "a.h5: /data", "external storage");
}

// Chunk indexes of version 1 have no checksum.
TEST_F(FieldMetadata, AChangedBitInAKeyOfAChunkIsNeverReadAsFillValues) {
  const FieldSpec spec{.extents = {8, 6, 2}, .chunk = {2, 3, 2}, .storage = deflated()};
  const std::string file = write("a.h5", spec), whole = read_text(file);
  const std::vector<float> right = values(open(options()), 0);
  constexpr std::size_t chunks = 8, header = 24, sizes = 8, offsets = 32, address = 8;
  const std::size_t node = whole.find(std::string("TREE\1\0\x08", 7));
  ASSERT_NE(node, std::string::npos);
  int refused = 0;
  for (std::size_t key = 0; key <= chunks; ++key) {
    for (const std::size_t bit : {0U, 1U, 2U, 3U, 12U, 40U, 65U, 66U, 129U, 200U}) {
      write_text(file, whole);
      flip_bit(file, node + header + key * (sizes + offsets + address) + sizes + bit / 8, bit % 8);
      const auto error =
          error_of([&] { EXPECT_EQ(values(open(options()), 0), right) << key << " " << bit; });
      if (!error) continue;
      ++refused;
      EXPECT_THAT(error->what(), HasSubstr("a.h5"));
    }
  }
  EXPECT_GT(refused, 20);
}

TEST_F(FieldMetadata, ExtentsAboveTheirMaximumAreRefused) {
  const std::string file =
      write("a.h5", {.extents = {4, 6, 2}, .chunk = {2, 6, 2}, .storage = {}, .most = {4, 6, 2}});
  std::string bytes = read_text(file);
  const auto at = bytes.find(std::string("\4\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\2", 17));
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 5;
  write_text(file, bytes);
#if H5_VERSION_GE(1, 14, 5)  // refuses it itself, in its own words
  expect_refused(options(), "a.h5: /data", "dim 0 size of 5", "maxdim size of 4");
#else
  expect_refused(options(), "a.h5: /data", "extent 5 along axis 0", "maximum of 4");
#endif
}

}  // namespace
}  // namespace trireme::test
