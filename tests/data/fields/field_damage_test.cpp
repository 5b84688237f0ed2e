// SPDX-License-Identifier: Apache-2.0
// Files that are damaged, differ, change or link elsewhere, and the names in the message.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "data/fields/field_dataset.h"
#include "data/fields/index_store.h"
#include "data/fields/storage/filters.h"
#include "data/files/file_tree.h"
#include "data/hdf5/child.h"
#include "data/shard/shard.h"
#include "runtime/base/clock.h"
#include "tests/data/edit_shard.h"
#include "tests/data/fields/make_fields.h"
#include "tests/data/make_data.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FieldDamage : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  std::string write(const std::string& name, const FieldSpec& spec, double label = 0) const {
    const H5 file = make_hdf5(path(name));
    write_field(file, "data", spec, counting(count_of(spec.extents)));
    write_field(file, "label", {.type = H5T_STD_I32LE}, {label});
    return path(name);
  }
  [[nodiscard]] FieldOptions options() const {
    return {{.files = {directory_.path()}, .inputs = {"data"}, .target = {"label"}}};
  }
  static std::vector<FileIndex> indexes_of(const FieldOptions& options) {
    return scan_in_children(expand_files(options.files), scan_request(options), 1);
  }
  static std::unique_ptr<FieldDataset> open(const FieldOptions& options) {
    return std::make_unique<FieldDataset>(indexes_of(options), options);
  }
  static std::int32_t read(const Dataset& data, std::int64_t index = 0) {
    std::vector<std::byte> sample(data.layout().input_bytes());
    std::int32_t label = -7;
    data.read(index, sample, {&label, 1});
    return label;
  }
  template <typename... Parts>
  void expect_refused(const FieldOptions& options, const Parts&... parts) const {
    expect_error(
        ExitCode::data, [&] { read(*open(options)); }, parts...);
  }
  // Overwrites the first chunk of `data`.
  void break_first_chunk(const std::string& file) const {
    FieldOptions one = options();
    one.files = {file};
    const StoredChunk chunk = indexes_of(one).front().units.front().fields.front().chunks.front();
    std::string bytes = read_text(file);
    for (std::uint64_t i = 0; i < chunk.bytes; ++i)
      bytes[chunk.offset + i] = static_cast<char>(0xff);
    write_text(file, bytes);
  }

  const TemporaryDirectory directory_;
};

const FieldSpec small{.extents = {4, 6, 2}};
const FieldSpec packed{.extents = {4, 6, 2}, .chunk = {2, 6, 2}, .storage = deflated()};

TEST_F(FieldDamage, InvalidFilesAreNamed) {
  expect_refused(options(), directory_.path(), "no HDF5 or NumPy files");
  write_text(path("a.h5"), "");
  expect_refused(options(), "a.h5", "is empty");
  write_text(path("a.h5"), "<!DOCTYPE html>");
  expect_refused(options(), "a.h5", "not an HDF5 file", "an HTML page");
  FieldOptions missing = options();
  missing.files = {path("none.h5")};
  expect_refused(missing, "none.h5", "no such file");
}

TEST_F(FieldDamage, TruncatedFilesAreNamedWhereverTheyEnd) {
  const std::string file = write("a.h5", {.extents = {64, 64, 2}});
  const std::string whole = read_text(file);
  for (std::size_t size = 1; size < whole.size(); size += whole.size() / 23) {
    write_text(file, whole.substr(0, size));
    expect_refused(options(), "a.h5");
  }
}

TEST_F(FieldDamage, AFileOfANewerFormatIsNamedWithTheFix) {
  const std::string file = write("a.h5", small);
  std::string bytes = read_text(file);
  // A layout message of version 3 of a contiguous data set, in front of its address.
  const std::uint64_t address = indexes_of(options()).front().units[0].fields[0].chunks[0].offset;
  const std::string layout =
      std::string("\3\1", 2) + std::string(reinterpret_cast<const char*>(&address), 8);
  const auto at = bytes.find(layout);
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 9;
  write_text(file, bytes);

  expect_refused(options(), "a.h5: /data: its format is newer than the HDF5 library",
                 "h5repack -j 0 -k", "-f GZIP=4 IN OUT", "libver=('earliest', 'v");
}

TEST_F(FieldDamage, MissingFieldsAreNamed) {
  write("a.h5", small);
  FieldOptions other = options();
  other.inputs = {"climate/data"};
  expect_refused(other, "a.h5", "holds no /climate/data");
  other = options();
  other.target = {"data@class"};
  expect_refused(other, "a.h5", "data", "no attribute class");
  other.target = {"/"};
  expect_refused(other, "a.h5", "is a group");
}

TEST_F(FieldDamage, ShapesThatDifferAreNamedWithBothFiles) {
  write("a.h5", small);
  write("b.h5", {.extents = {4, 7, 2}});
  expect_refused(options(), "b.h5", "4 x 7 x 2", "a.h5", "data.crop");
  FieldOptions wrong = options();
  wrong.files = {path("a.h5")};
  wrong.axes = "HW";
  expect_refused(wrong, "a.h5", "3 axes (4 x 6 x 2)", "data.axes");
  wrong.axes = "HWC";
  wrong.height = 5;
  expect_refused(wrong, "model.image_size: 4", "model.image_width: 6", "model.channels: 2");
  wrong.height = 0;
  wrong.crop = {2, 0, 3, 6};
  expect_refused(wrong, "data.crop: 3 rows from 2");
  wrong.crop = {};
  wrong.input_channels = {2};
  expect_refused(wrong, "data.input_channels: 2 is not one of the 2 channels");
}

TEST_F(FieldDamage, InvalidLabelsAreNamed) {
  FieldOptions three = options();
  three.predicted.classes = 3;
  for (const double label : {3.0, -1.0}) {
    write("a.h5", small, label);
    expect_refused(three, "a.h5", "label", "but there are 3 classes");
  }
  three.target = {"data"};
  expect_refused(three, "a.h5", "data", "one number per sample");
}

TEST_F(FieldDamage, NamesWithoutFilesAreRefused) {
  write("a.h5", small);
  std::filesystem::create_directories(path("folder.h5/below"));
  EXPECT_EQ(expand_files(options().files), std::vector{path("a.h5")});
  ASSERT_EQ(::mkfifo(path("b.h5").c_str(), 0600), 0);
  expect_refused(options(), "b.h5", "but is a pipe", "name the files by a pattern");
  std::filesystem::remove(path("b.h5"));
  std::filesystem::create_symlink(path("nothing"), path("folder.h5/below/c.nc"));
  expect_refused(options(), "c.nc", "a broken link");
}

TEST_F(FieldDamage, AChunkThatDoesNotDecodeIsNamedOrLeftOutAndCounted) {
  break_first_chunk(write("a.h5", packed));
  write("b.h5", packed, 1);
  FieldOptions skipping = options();
  skipping.damaged = Damaged::skip;

  expect_refused(options(), "a.h5: data: chunk 0", "does not decode", "deflate");
  const auto data = open(skipping);
  EXPECT_EQ(read(*data, 0), -1) << "ignored by the loss";
  EXPECT_EQ(read(*data, 1), 1);
  EXPECT_THAT(data->shortcomings(), HasSubstr("1 samples whose data did not decode"));
}

TEST_F(FieldDamage, AFilterThatIsNotKnownIsNamedWithWhatToDo) {
  const auto custom = [](hid_t properties) {
    EXPECT_GE(H5Pset_filter(properties, 32013, H5Z_FLAG_OPTIONAL, 0, nullptr), 0);
  };
  write("a.h5", {.extents = {4, 6, 2}, .chunk = {2, 6, 2}, .storage = custom});
  expect_refused(options(), "a.h5", "filter 32013 (zfp)", "hdf5plugin", "h5repack");
}

TEST_F(FieldDamage, UnsupportedFiltersAreNamedWithTheFix) {
  const H5 narrow(H5Tcopy(H5T_STD_I16LE), H5Tclose);
  write("a.h5", {.extents = {4, 6, 2}, .type = narrow, .chunk = {2, 6, 2}, .storage = [](hid_t p) {
                   EXPECT_GE(H5Pset_scaleoffset(p, H5Z_SO_INT, H5Z_SO_INT_MINBITS_DEFAULT), 0);
                 }});
  expect_refused(options(), "a.h5", "filter 6 (scale-offset)", "h5repack -f NONE");
  write("a.h5", {.extents = {4, 6, 2}, .type = narrow, .chunk = {2, 6, 2}, .storage = [](hid_t p) {
                   EXPECT_GE(H5Pset_nbit(p), 0);
                 }});
  expect_refused(options(), "a.h5", "filter 5 (n-bit)", "h5repack -f NONE");
}

TEST_F(FieldDamage, ASzipStreamThatIsBrokenIsNamedWithItsChunk) {
  const auto szip = [](hid_t p) { EXPECT_GE(H5Pset_szip(p, H5_SZIP_NN_OPTION_MASK, 8), 0); };
  const FieldSpec spec{.extents = {4, 6, 2}, .chunk = {2, 6, 2}, .storage = szip};
  break_first_chunk(write("a.h5", spec));
  expect_refused(options(), "a.h5: data: chunk 0", "does not decode", "szip");

  const std::string file = write("a.h5", spec);
  const StoredField field = indexes_of(options()).front().units.front().fields.front();
  const std::string bytes = read_text(file).substr(field.chunks[0].offset, field.chunks[0].bytes);
  std::vector<std::byte> chunk(field.chunk_bytes());
  const auto decode = [&](std::vector<std::uint32_t> values, std::size_t stored) {
    const std::vector<FilterStep> filters{{.id = 4, .values = std::move(values)}};
    ChunkDecoder().decode(filters, 0, std::as_bytes(std::span(bytes).first(stored)), chunk);
  };
  const std::vector<std::uint32_t> values = field.filters.front().values;
  decode(values, bytes.size());
  for (std::size_t stored = 0; stored + 1 < bytes.size(); ++stored)
    expect_error(
        ExitCode::data, [&] { decode(values, stored); }, "szip");
  for (std::size_t i = 1; i < 4; ++i) {
    for (const std::uint32_t wrong : {0U, 1U, 5000U, ~0U}) {
      auto other = values;
      other[i] = wrong;
      expect_error(
          ExitCode::data, [&] { decode(other, bytes.size()); }, "szip: ", " of ");
    }
  }
  expect_error(
      ExitCode::data, [&] { decode({}, bytes.size()); }, "szip", "0 of 4 parameters");
}

TEST_F(FieldDamage, AFilterThatIsInstalledAsAPluginIsUsed) {
  const auto plugin = [](hid_t properties) {
    const unsigned key = 0x5a;
    EXPECT_GE(H5Pset_filter(properties, 32700, 0, 1, &key), 0);
  };
  const std::string file =
      write("a.h5", {.extents = {4, 6, 2}, .chunk = {2, 6, 2}, .storage = plugin});
  const auto data = open(options());
  std::vector<float> sample(48);
  std::int32_t label = -1;
  data->read(0, std::as_writable_bytes(std::span(sample)), {&label, 1});

  EXPECT_EQ(sample.back(), 47.0F);
  const StoredChunk chunk = data->indexes().front().units.front().fields.front().chunks.front();
  EXPECT_EQ(read_text(file)[chunk.offset], 0x5a) << "the first byte of 0.0, as stored";
}

TEST_F(FieldDamage, AChunkThatDecodesToMoreThanItSaysIsRefused) {
  ChunkDecoder decoder;
  const std::vector<FilterStep> filters{{.id = 1}};
  const std::string file = write(
      "a.h5", {.extents = {256, 256, 2}, .chunk = {256, 256, 2}, .storage = deflated(9, false)});
  const FileIndex index = indexes_of(options()).front();
  const StoredChunk chunk = index.units.front().fields.front().chunks.front();
  const std::string bytes = read_text(file).substr(chunk.offset, chunk.bytes);
  std::vector<std::byte> small_room(4096);
  expect_error(
      ExitCode::data,
      [&] { decoder.decode(filters, 0, std::as_bytes(std::span(bytes)), small_room); }, "deflate",
      "the result is larger than the chunk");
}

TEST_F(FieldDamage, AnIndexThatReachesBeyondItsFileIsRefused) {
  write("a.h5", packed);
  const FileIndex good = indexes_of(options()).front();
  const auto refuse = [&](auto&& change, const std::string& why) {
    FileIndex bad = good;
    change(bad.units.front().fields.front());
    std::string bytes;
    append_index(bytes, bad);
    expect_error(
        ExitCode::data, [&] { static_cast<void>(parse_indexes(bytes)); }, why);
  };
  refuse([](StoredField& f) { f.chunks.back().offset = std::uint64_t{1} << 60; }, "past the end");
  refuse([](StoredField& f) { f.chunks.back().bytes = ~std::uint64_t{0}; }, "than 1 GiB");
  refuse([](StoredField& f) { f.chunks.pop_back(); }, "number of chunks");
  refuse([](StoredField& f) { f.extents[0] = std::uint64_t{1} << 60; }, "2^56");
  refuse([](StoredField& f) { f.chunk_extents[1] = 0; }, "empty");
  refuse([](StoredField& f) { f.chunk_extents = {1 << 20, 1 << 20, 2}; }, "1 GiB");
  refuse([](StoredField& f) { f.type.bytes = 3; }, "type");
  std::string bytes;
  append_index(bytes, good);
  for (std::size_t size = 1; size < bytes.size(); size += 7) {
    expect_error(ExitCode::data, [&] { static_cast<void>(parse_indexes(bytes.substr(0, size))); });
  }
  EXPECT_EQ(parse_indexes(bytes).front(), good);
}

TEST_F(FieldDamage, LinksStayInTheFolderOfTheirFileUnlessTheConfigSaysOtherwise) {
  std::filesystem::create_directories(path("in"));
  write("outside.h5", small, 2);
  write("in/target.h5", small, 1);
  const auto link = [&](const std::string& name, const std::string& target) {
    const H5 file = make_hdf5(path(name));
    ASSERT_GE(H5Lcreate_external(target.c_str(), "/data", file, "data", H5P_DEFAULT, H5P_DEFAULT),
              0);
    ASSERT_GE(H5Lcreate_external(target.c_str(), "/label", file, "label", H5P_DEFAULT, H5P_DEFAULT),
              0);
  };
  link("in/inside_link.h5", "target.h5");
  link("in/outside_link.h5", "../outside.h5");
  FieldOptions inside = options(), outside = options();
  inside.files = {path("in/inside_link.h5")};
  outside.files = {path("in/outside_link.h5")};

  EXPECT_EQ(read(*open(inside)), 1);
  expect_refused(outside, "outside_link.h5", "../outside.h5", "data.outside_links");
  outside.outside_links = true;
  EXPECT_EQ(read(*open(outside)), 2);
}

TEST_F(FieldDamage, LinksInCirclesAreRefused) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "label", {.type = H5T_STD_I32LE}, {0});
    ASSERT_GE(H5Lcreate_soft("/b", file, "data", H5P_DEFAULT, H5P_DEFAULT), 0);
    ASSERT_GE(H5Lcreate_external("a.h5", "/data", file, "b", H5P_DEFAULT, H5P_DEFAULT), 0);
  }
  expect_refused(options(), "a.h5", "its links form a cycle");
}

TEST_F(FieldDamage, VirtualDataSetsAreReadFromTheirSources) {
  for (int i = 0; i < 2; ++i) {
    const H5 file = make_hdf5(path(fmt::format("part_{}.h5", i)));
    write_field(file, "x", {.extents = {3, 4}, .chunk = {3, 2}, .storage = deflated()},
                counting(12, 100.0 * i));
  }
  {
    const H5 file = make_hdf5(path("all.h5"));
    const H5 properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    const std::array<hsize_t, 3> extents{2, 3, 4};
    const H5 space(H5Screate_simple(3, extents.data(), nullptr), H5Sclose);
    const H5 source(H5Screate_simple(2, extents.data() + 1, nullptr), H5Sclose);
    for (hsize_t i = 0; i < 2; ++i) {
      const std::array<hsize_t, 3> start{i, 0, 0}, count{1, 3, 4};
      ASSERT_GE(
          H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
          0);
      ASSERT_GE(
          H5Pset_virtual(properties, space, fmt::format("part_{}.h5", i).c_str(), "x", source), 0);
    }
    ASSERT_GE(H5Sselect_all(space), 0);
    const H5 data(
        H5Dcreate2(file, "data", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT),
        H5Dclose);
    write_field(file, "label", {.extents = {2}, .type = H5T_STD_I32LE}, {4, 5});
  }
  FieldOptions joined{{.files = {path("all.h5")},
                       .samples = SampleUnit::axis,
                       .inputs = {"data"},
                       .target = {"label"},
                       .axes = "NHW"}};

  const auto data = open(joined);
  std::vector<float> sample(12);
  std::int32_t label = 0;
  data->read(1, std::as_writable_bytes(std::span(sample)), {&label, 1});

  EXPECT_EQ(label, 5);
  EXPECT_EQ(sample.front(), 100.0F);
  EXPECT_EQ(sample.back(), 111.0F);
  std::filesystem::remove(path("part_1.h5"));
  expect_refused(joined, "part_1.h5");
}

TEST_F(FieldDamage, AFileThatChangesWhileItIsReadIsNamed) {
  const std::string file = write("a.h5", small);
  const auto data = open(options());
  EXPECT_EQ(read(*data), 0);

  std::string bytes = read_text(file);
  write_text(file, bytes + "more");
  std::optional<Error> error;
  const auto start = std::chrono::steady_clock::now();
  while (!error && seconds_since(start) < 10)
    error = error_of([&] { read(*data); });

  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(),
              AllOf(HasSubstr("a.h5"), HasSubstr("has changed since the run began")));
}

TEST_F(FieldDamage, AWriteWithARestoredTimeIsNamedAndChmodIsNoChange) {
  const std::string file = write("a.h5", small);
  const auto data = open(options());
  EXPECT_EQ(read(*data), 0);
  const auto read_for = [&](double seconds) {
    std::optional<Error> error;
    const auto start = std::chrono::steady_clock::now();
    while (!error && seconds_since(start) < seconds)
      error = error_of([&] { read(*data); });
    return error;
  };
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  EXPECT_FALSE(read_for(0.05));
  std::filesystem::permissions(
      file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write |
                std::filesystem::perms::group_read | std::filesystem::perms::others_read);
  EXPECT_FALSE(read_for(0.05));

  const auto before = std::filesystem::last_write_time(file);
  flip_bit(file, 2000);
  std::filesystem::last_write_time(file, before);

  const auto error = read_for(10);
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("a.h5"), HasSubstr("set back")));
}

TEST_F(FieldDamage, AnIndexIsKeptUntilItsFileChanges) {
  const std::string a = write("a.h5", packed), b = write("b.h5", packed);
  const std::vector<std::string> files{a, b};
  const ScanRequest request = scan_request(options());
  const std::string kept = path("run.index");
  keep_indexes(kept, request, indexes_of(options()));

  EXPECT_EQ(kept_indexes(kept, request, files).indexes, indexes_of(options()));
  write("b.h5", small);
  const KeptIndexes one = kept_indexes(kept, request, files);
  ASSERT_EQ(one.indexes.size(), 1U);
  EXPECT_EQ(one.indexes.front().path, a);
  EXPECT_EQ(one.touched, "") << "another size is another file";
  std::filesystem::last_write_time(a, std::filesystem::file_time_type::clock::now());
  EXPECT_EQ(kept_indexes(kept, request, files).touched, a + " was");
  EXPECT_TRUE(kept_indexes(kept, request, files).indexes.empty());
  ScanRequest other = request;
  other.fields.front() = "x";
  EXPECT_TRUE(kept_indexes(kept, other, files).indexes.empty());
  flip_bit(kept, 300);
  EXPECT_TRUE(kept_indexes(kept, request, files).indexes.empty()) << "a damaged one is not used";
  EXPECT_TRUE(kept_indexes(path("none"), request, files).indexes.empty());
}

TEST_F(FieldDamage, AFileThatCrashesTheLibraryIsNamedAndThisProcessContinues) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer wants to be loaded first";
#endif
  write("a_crash.h5", small);
  ASSERT_EQ(::setenv("LD_PRELOAD", TRIREME_CRASHING_LIBRARY, 1), 0);
  expect_refused(options(), "a_crash.h5", "signal 11");
  // The same child before and after: the library that is preloaded opens no file.
  write_token_shard(path("b.h5"), token_header(100, 250), counting_tokens(100, 250));
  std::filesystem::copy_file(path("b.h5"), path("b_crash.h5"));
  const auto child = Hdf5Child::shared();
  for (const char* const end : {"HDF5", "signal 11", "HDF5"}) {
    const std::string file = end == std::string("HDF5") ? "b.h5" : "b_crash.h5";
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open_shard(path(file))); }, file, end,
        "trireme data pack-text");
  }
  // Killed as for memory, stopped, and with a signal for the end of its parent.
  ASSERT_EQ(::setenv("TRIREME_HDF5_SECONDS", "1", 1), 0);
  write_text(path("b_once.h5.mark"), "");
  for (const auto& [name, part] :
       {std::pair("b_killed.h5", "signal 9"), std::pair("b_once.h5", "HDF5 file"),
        std::pair("b_stopped.h5", "TRIREME_HDF5_SECONDS"), std::pair("b_orphan.h5", "HDF5 file")}) {
    std::filesystem::copy_file(path("b.h5"), path(name));
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open_shard(path(name))); }, name, part);
    std::filesystem::remove(path(name));
  }
  EXPECT_FALSE(std::filesystem::exists(path("b_once.h5.mark")));
  ASSERT_EQ(::unsetenv("TRIREME_HDF5_SECONDS"), 0);
  ASSERT_EQ(::unsetenv("LD_PRELOAD"), 0);

  std::filesystem::remove(path("b.h5"));
  std::filesystem::remove(path("b_crash.h5"));
  EXPECT_EQ(read(*open(options())), 0);
}

TEST_F(FieldDamage, AChangedBitInAFileIsAnErrorOrOtherNumbersAndNeverACrash) {
  const std::string file = write("a.h5", packed);
  const std::string whole = read_text(file);
  int refused = 0;
  for (std::size_t byte = 0; byte < whole.size(); byte += 61) {
    std::string changed = whole;
    changed[byte] = static_cast<char>(changed[byte] ^ (1 << byte % 8));
    write_text(file, changed);
    const auto error = error_of([&] { read(*open(options())); });
    if (!error) continue;
    ++refused;
    EXPECT_EQ(static_cast<int>(error->code()), static_cast<int>(ExitCode::data)) << error->what();
    EXPECT_THAT(error->what(), HasSubstr("a.h5"));
  }
  EXPECT_GT(refused, 5);
}

}  // namespace
}  // namespace trireme::test
