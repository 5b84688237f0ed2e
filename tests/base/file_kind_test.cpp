// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file_kind.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace trireme {
namespace {

using namespace std::string_literals;

TEST(FileKind, NamesFilesMistakenForDataAndWeights) {
  const std::string zip = "PK\x03\x04"s + std::string(26, '\0');
  const std::string tar = "a/b.jpg"s + std::string(250, '\0') + "ustar";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "empty (0 bytes)"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0", "`git lfs pull`"},
      {"<!DOCTYPE html><html>", "an HTML page"},
      {"\r\n<HTML><head>", "an HTML page"},
      {"<?xml version='1.0'?><Error><Code>AccessDenied", "an XML document"},
      {"{\"error\": \"not found\"}", "JSON text"},
      {"Entry not found \xc3\xa4", "text"},
      {"\x89HDF\r\n\x1a\n\x00"s, "an HDF5 file"},
      {"CDF\x02\x00"s, "nccopy -k nc4"},
      {zip + "archive/data.pkl", "a Python pickle, as torch.save writes"},
      {zip + "arr_0.npy", "(.npz)"},
      {zip + "notes.txt", "a ZIP archive"},
      {"\x80\x02}q\x00"s, "save_pretrained(DIRECTORY)"},
      {"\x1f\x8b\x08\x00"s, "compressed by gzip"},
      {tar, "a tar archive"},
      {"\x80\x02\x00\x00\x00\x00\x00\x00{\"a\":"s, "a safetensors file"},
      {std::string(512, '\0'), "filled with zeros in its first 512 bytes"},
      {"\x01\x02\xab"s, "the bytes 01 02 ab)"},
  };

  for (const auto& [first, words] : cases)
    EXPECT_NE(describe_first_bytes(first).find(words), std::string::npos)
        << words << ": " << describe_first_bytes(first);
}

TEST(FileKind, LooksAtTheBeginOfALargeFile) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "file_kind_page";
  std::ofstream(path) << "<html>" << std::string(100'000, ' ');

  EXPECT_TRUE(describe_file_kind(path.string(), ExitCode::data).starts_with("an HTML page"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace trireme
