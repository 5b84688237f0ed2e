// SPDX-License-Identifier: Apache-2.0
// Files that are valid HDF5 but no shards: each is refused by name, with the reason.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <functional>

#include "data/shard/shard.h"
#include "runtime/base/checksum.h"
#include "tests/data/make_data.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using test::expect_error;
using test::write_text;

constexpr hsize_t token_count = 64;

// A shard as written by another program, with one part replaced.
struct ForeignShard {
  H5F_libver_t low = H5F_LIBVER_V18;
  H5F_libver_t high = H5F_LIBVER_V18;
  hid_t type = H5T_NATIVE_UINT16;
  hsize_t length = token_count;
  bool variable_text = false;
  std::function<void(hid_t file)> make_tokens;  // instead of the plain data set
  std::function<void(hid_t plan)> change_plan = [](hid_t) {};
  Attributes attributes = attributes_of([] {
    ShardHeader header = test::token_header(token_count, 256);
    header.documents = 1;
    return header;
  }());
  std::int64_t header_checksum_change = 0;

  void write(const std::string& path) const {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, low, high);
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    make_tokens ? make_tokens(file) : write_tokens(file);
    const std::vector<std::uint64_t> offsets = {0, token_count};
    write_plain(file, "document_offsets", H5T_NATIVE_UINT64, 2, offsets.data());
    std::string text;
    for (const auto& [name, value] : attributes) {
      std::visit([&, &key = name](const auto& it) { text += fmt::format("{}={}\n", key, it); },
                 value);
      write_attribute(file, name, value);
    }
    write_attribute(file, "header_xxh3",
                    checksum_of(text) + static_cast<std::uint64_t>(header_checksum_change));
    H5Pclose(access);
    ASSERT_GE(H5Fclose(file), 0);
  }

  ForeignShard& with(const std::string& name, const AttributeValue& value) {
    for (auto& [key, old] : attributes) {
      if (key == name) old = value;
    }
    return *this;
  }

 private:
  static void write_plain(hid_t file, const char* name, hid_t type, hsize_t length,
                          const void* data) {
    const hid_t space = H5Screate_simple(1, &length, nullptr);
    const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    H5Dclose(set);
    H5Sclose(space);
  }

  void write_tokens(hid_t file) const {
    const std::vector<std::uint64_t> zeros(length, 0);
    const hid_t space = H5Screate_simple(1, &length, nullptr);
    const hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
    change_plan(plan);
    const hid_t set = H5Dcreate2(file, "tokens", type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
    ASSERT_GE(set, 0);
    ASSERT_GE(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data()), 0);
    H5Dclose(set);
    H5Pclose(plan);
    H5Sclose(space);
  }

  void write_attribute(hid_t file, const std::string& name, const AttributeValue& value) const {
    const hid_t space = H5Screate(H5S_SCALAR);
    hid_t type = H5T_NATIVE_UINT64;
    const void* data = std::get_if<std::uint64_t>(&value);
    const char* text = nullptr;
    if (const auto* const words = std::get_if<std::string>(&value)) {
      type = H5Tcopy(H5T_C_S1);
      H5Tset_size(type, variable_text ? H5T_VARIABLE : words->size());
      text = words->c_str();
      data = variable_text ? static_cast<const void*>(&text) : text;
    }
    const hid_t attribute = H5Acreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(H5Awrite(attribute, type, data), 0);
    H5Aclose(attribute);
    H5Sclose(space);
  }
};

class ShardRefusal : public testing::Test {
 protected:
  template <typename... Parts>
  void expect_refused(const ForeignShard& shard, const Parts&... parts) {
    shard.write(path_);
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open_shard(path_)); }, path_,
        "trireme data pack-text", parts...);
  }
  template <typename... Parts>
  void expect_bytes_refused(const std::string& bytes, const Parts&... parts) {
    write_text(path_, bytes);
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open_shard(path_)); }, path_, parts...);
  }

  test::TemporaryDirectory directory_;
  std::string path_ = directory_.file("shard_00000.h5");
};

TEST_F(ShardRefusal, AcceptsAForeignShardThatFollowsTheFormat) {
  ForeignShard{}.write(path_);
  EXPECT_EQ(open_shard(path_).header.count, token_count);
}

TEST_F(ShardRefusal, NamesAMissingFileAndADirectory) {
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open_shard(path_)); }, path_, "ENOENT");
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open_shard(directory_.path())); },
      "not a regular file");
}

TEST_F(ShardRefusal, NamesFilesThatAreNotHdf5) {
  expect_bytes_refused("", "is empty");
  expect_bytes_refused("version https://git-lfs.github.com/spec/v1", "git lfs pull");
  expect_bytes_refused("\x89HDF\r\n\x1a\n", "8 bytes");
  expect_bytes_refused(std::string(4096, 'x'), "not an HDF5 file", "it is text");
}

TEST_F(ShardRefusal, NamesTheOldFormatWithoutChecksums) {
  ForeignShard shard;
  shard.low = H5F_LIBVER_EARLIEST;
  expect_refused(shard, "superblock version 0", "v108");
}

TEST_F(ShardRefusal, NamesChunkedStorage) {
  ForeignShard shard;
  shard.change_plan = [](hid_t plan) {
    const hsize_t chunk = 16;
    H5Pset_chunk(plan, 1, &chunk);
  };
  expect_refused(shard, "/tokens has chunked storage", "contiguous");
}

TEST_F(ShardRefusal, NamesCompressedStorage) {
  ForeignShard shard;
  shard.change_plan = [](hid_t plan) {
    const hsize_t chunk = 16;
    H5Pset_chunk(plan, 1, &chunk);
    H5Pset_deflate(plan, 6);
  };
  expect_refused(shard, "compressed or filtered");
}

TEST_F(ShardRefusal, NamesCompactStorage) {
  ForeignShard shard;
  shard.change_plan = [](hid_t plan) { H5Pset_layout(plan, H5D_COMPACT); };
  expect_refused(shard, "compact storage");
}

TEST_F(ShardRefusal, NamesBytesInAnExternalFile) {
  ForeignShard shard;
  const std::string outside = directory_.file("outside.bin");
  shard.change_plan = [outside](hid_t plan) {
    H5Pset_external(plan, outside.c_str(), 0, token_count * 2);
  };
  expect_refused(shard, "external file");
}

TEST_F(ShardRefusal, NamesAVirtualDataset) {
  ForeignShard shard;
  shard.make_tokens = [](hid_t file) {
    const hsize_t length = token_count;
    const hid_t space = H5Screate_simple(1, &length, nullptr), plan = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_virtual(plan, space, "/etc/passwd", "tokens", space);
    H5Dclose(H5Dcreate2(file, "tokens", H5T_NATIVE_UINT16, space, H5P_DEFAULT, plan, H5P_DEFAULT));
  };
  shard.low = H5F_LIBVER_V110;  // the first with virtual data sets
  shard.high = H5F_LIBVER_LATEST;
  expect_refused(shard, "/tokens has virtual storage");
}

TEST_F(ShardRefusal, NamesExternalAndSoftLinks) {
  ForeignShard external;
  external.make_tokens = [](hid_t file) {
    H5Lcreate_external("/etc/passwd", "/tokens", file, "tokens", H5P_DEFAULT, H5P_DEFAULT);
  };
  expect_refused(external, "/tokens is a soft or external link");
  ForeignShard soft;
  soft.make_tokens = [](hid_t file) {
    H5Lcreate_soft("/document_offsets", file, "tokens", H5P_DEFAULT, H5P_DEFAULT);
  };
  expect_refused(soft, "/tokens is a soft or external link");
}

TEST_F(ShardRefusal, NamesMissingAndMistakenDatasets) {
  ForeignShard missing;
  missing.make_tokens = [](hid_t) {};
  expect_refused(missing, "no dataset /tokens");
  ForeignShard group;
  group.make_tokens = [](hid_t file) {
    H5Gclose(H5Gcreate2(file, "tokens", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  };
  expect_refused(group, "damaged");
}

TEST_F(ShardRefusal, NamesWrongTypesAndByteOrder) {
  ForeignShard big_endian;
  big_endian.type = H5T_STD_U16BE;
  expect_refused(big_endian, "/tokens does not hold uint16", "byte order");
  ForeignShard wide;
  wide.type = H5T_NATIVE_UINT64;
  expect_refused(wide, "/tokens does not hold uint16");
  ForeignShard floating;
  floating.type = H5T_NATIVE_FLOAT;
  expect_refused(floating, "/tokens does not hold uint16");
}

TEST_F(ShardRefusal, NamesAShapeThatTheAttributesDeny) {
  ForeignShard shard;
  shard.length = token_count - 1;
  expect_refused(shard, "/tokens has shape (63), its attributes say (64)");
}

TEST_F(ShardRefusal, NamesBadAttributes) {
  expect_refused(ForeignShard{}.with("format", std::string("something-else")), "'something-else'");
  expect_refused(ForeignShard{}.with("version", std::uint64_t{9}), "format version 9",
                 "versions 1 to 3");
  expect_refused(ForeignShard{}.with("version", std::uint64_t{2}), "'counted'");
  expect_refused(ForeignShard{}.with("kind", std::string("sounds")), "'sounds'");
  expect_refused(ForeignShard{}.with("dtype", std::string("float32")), "uint16 or uint32");
  expect_refused(ForeignShard{}.with("dtype", std::string("uint8")), "uint16 or uint32");
  expect_refused(ForeignShard{}.with("count", std::uint64_t{0}), "holds no tokens");
  expect_refused(ForeignShard{}.with("vocabulary", std::uint64_t{0}), "vocabulary 0");
  expect_refused(ForeignShard{}.with("vocabulary", std::uint64_t{65537}), "vocabulary 65537");
  expect_refused(ForeignShard{}.with("documents", std::uint64_t{65}), "65 documents");
  expect_refused(ForeignShard{}.with("shard_index", std::uint64_t{1}), "shard 1 of 1");
  expect_refused(ForeignShard{}.with("count", ~std::uint64_t{0}), "its attributes say");
}

TEST_F(ShardRefusal, NamesMissingAndMistypedAttributes) {
  ForeignShard missing;
  missing.attributes.erase(missing.attributes.begin());
  expect_refused(missing, "lacks the attribute 'format'");
  ForeignShard swapped;
  swapped.with("count", std::string("64"));
  expect_refused(swapped, "attribute 'count' is not an integer");
  ForeignShard number;
  number.with("kind", std::uint64_t{1});
  expect_refused(number, "attribute 'kind' is not fixed-length text");
  ForeignShard variable;
  variable.variable_text = true;
  expect_refused(variable, "attribute 'format' is not fixed-length text");
}

TEST_F(ShardRefusal, NamesAttributesThatDoNotMatchTheirChecksum) {
  ForeignShard shard;
  shard.header_checksum_change = 1;
  expect_refused(shard, "header_xxh3", "changed or damaged");
}

}  // namespace
}  // namespace trireme
