// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file_kind.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "runtime/base/file.h"

namespace trireme {
namespace {

using namespace std::string_view_literals;

struct Kind {
  std::string_view begin;  // the bytes at `at`
  std::string_view words;  // description and fix
  std::size_t at = 0;
};

constexpr std::string_view html =
    "an HTML page, perhaps a log-in or error page of a server; download the file again";
constexpr std::string_view pickle =
    "a Python pickle, as torch.save writes; loading one can run code, so it is refused: load it "
    "with its own library and save the tensors with safetensors, as save_pretrained(DIRECTORY) of "
    "transformers does";
constexpr std::string_view netcdf =
    "a netCDF file of the classic format; `nccopy -k nc4 IN OUT` makes an HDF5 file of it";
constexpr std::string_view utf16 =
    "text in UTF-16; convert it: `iconv -f UTF-16 -t UTF-8 IN > OUT`";

constexpr std::array kinds = {
    Kind{"version https://git-lfs"sv,
         "a Git LFS pointer, whose content was not fetched; run `git lfs pull` in its repository"},
    Kind{"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    Kind{"MATLAB 7.3 MAT-file"sv, "a MATLAB 7.3 file, which is HDF5 after a user block"},
    Kind{"MATLAB 5.0 MAT-file"sv,
         "a MATLAB 5 file; in MATLAB `save(..., '-v7.3')` writes HDF5 instead"},
    Kind{"CDF\x01"sv, netcdf},
    Kind{"CDF\x02"sv, netcdf},
    Kind{"CDF\x05"sv, netcdf},
    Kind{"\x0e\x03\x13\x01"sv, "an HDF4 file; `h4toh5` makes an HDF5 file of it"},
    Kind{"GRIB"sv, "a GRIB file"},
    Kind{"SIMPLE  ="sv, "a FITS file"},
    Kind{"\x93NUMPY"sv, "an array of NumPy (.npy)"},
    Kind{"GGUF"sv, "a GGUF file of llama.cpp; take the safetensors files of the same model"},
    Kind{"PAR1"sv,
         "a Parquet file; scripts/parquet_to_jsonl.py converts its texts to JSON lines; write its "
         "numbers with pandas: numpy.savez(OUT, **{c: d[c] for c in d}), d = read_parquet(FILE)"},
    Kind{
        "ARROW1"sv,
        "an Arrow file; write its numbers with pandas: numpy.savez(OUT, **{c: d[c] for c in d}), d "
        "= read_feather(FILE)"},
    Kind{"\x80\x02"sv, pickle},
    Kind{"\x80\x03"sv, pickle},
    Kind{"\x80\x04"sv, pickle},
    Kind{"\x80\x05"sv, pickle},
    Kind{"\x1f\x8b"sv, "compressed by gzip; unpack it first (gunzip, or tar -xzf for an archive)"},
    Kind{"\x28\xb5\x2f\xfd"sv, "compressed by zstd; unpack it first (unzstd)"},
    Kind{"BZh"sv, "compressed by bzip2; unpack it first (bunzip2)"},
    Kind{"\xfd"
         "7zXZ"sv,
         "compressed by xz; unpack it first (unxz)"},
    Kind{"7z\xbc\xaf\x27\x1c"sv, "a 7-Zip archive; unpack it first"},
    Kind{"ustar"sv, "a tar archive; unpack it first (tar -xf)", 257},
    Kind{"\xff\xd8\xff"sv, "a JPEG image"},
    Kind{"\x89PNG\r\n"sv, "a PNG image"},
    Kind{"%PDF-"sv, "a PDF document; make text of it (pdftotext IN OUT)"},
    Kind{"\x04\x22\x4d\x18"sv, "compressed by lz4; unpack it first (unlz4)"},
    Kind{"\xff\xfe\0\0"sv, "text in UTF-32; convert it: `iconv -f UTF-32 -t UTF-8 IN > OUT`"},
    Kind{"\xff\xfe"sv, utf16},
    Kind{"\xfe\xff"sv, utf16},
};

// The first member of a ZIP archive shows which program wrote it.
std::string_view kind_of_zip(std::string_view first) {
  constexpr std::size_t name_at = 30;
  const std::string_view name = first.substr(std::min(name_at, first.size()), 200);
  if (name.find("/data.pkl") < name.find("PK\x03\x04")) return pickle;
  if (name.find(".npy") < name.find("PK\x03\x04")) return "an archive of NumPy arrays (.npz)";
  return "a ZIP archive; unpack it first (unzip)";
}

bool is_safetensors(std::string_view first) {
  std::uint64_t header = 0;  // its bytes, little-endian
  if (first.size() < 10 || first[8] != '{') return false;
  std::memcpy(&header, first.data(), sizeof(header));
  return header > 1 && header < std::uint64_t{1} << 32;
}

bool is_text_byte(char letter) {
  return static_cast<unsigned char>(letter) >= ' ' ||
         std::string_view("\t\r\n\f").find(letter) != std::string_view::npos;
}

// Text has no control characters except white space.
bool is_text(std::string_view first) {
  return std::ranges::all_of(first, is_text_byte);
}

// Without a mark: in most letters of Latin texts one of two bytes is 0.
bool is_utf16(std::string_view first) {
  std::array<std::size_t, 2> zeros{}, letters{};
  for (std::size_t i = 0; i < first.size(); ++i) {
    zeros[i % 2] += first[i] == '\0' ? 1 : 0;
    letters[i % 2] += first[i] > 0 && is_text_byte(first[i]) ? 1 : 0;
  }
  const std::size_t most = first.size() * 9 / 20;
  return first.size() >= 16 &&
         ((zeros[1] >= most && letters[0] >= most) || (zeros[0] >= most && letters[1] >= most));
}

bool is_html(std::string_view text) {
  std::string lower(text.substr(0, 64));
  std::ranges::transform(lower, lower.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return lower.starts_with("<!doctype html") || lower.starts_with("<html") ||
         lower.starts_with("<head");
}

std::string_view kind_of_text(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  text.remove_prefix(std::min(begin, text.size()));
  if (is_html(text)) return html;
  if (text.starts_with('<')) return "an XML document, perhaps an error of a server";
  if (text.starts_with('{') || text.starts_with('[')) return "JSON text";
  return "text";
}

}  // namespace

std::string binary_kind_of(std::string_view first) {
  first = first.substr(0, file_kind_bytes);
  // Before the pickles: safetensors files begin with a length of any value.
  if (is_safetensors(first)) return "a safetensors file";
  for (const Kind& kind : kinds) {
    const bool word = kind.begin.size() < 5 && kind.begin[0] > ' ';  // a text may begin with it
    if (first.size() >= kind.at && first.substr(kind.at).starts_with(kind.begin) &&
        !(word && is_text(first)))
      return std::string(kind.words);
  }
  if (first.starts_with("PK\x03\x04")) return std::string(kind_of_zip(first));
  return is_utf16(first) ? std::string(utf16) : "";
}

std::string describe_first_bytes(std::string_view first) {
  if (first.empty()) return "empty (0 bytes); copy or download it again";
  if (std::string kind = binary_kind_of(first); !kind.empty()) return kind;
  if (first.find_first_not_of('\0') == std::string_view::npos)
    return fmt::format(
        "filled with zeros in its first {} bytes, as after an interrupted copy; copy or download "
        "it again",
        first.size());
  if (is_text(first)) return std::string(kind_of_text(first));
  std::string bytes;
  for (const char byte : first.substr(0, 8))
    bytes += fmt::format(" {:02x}", static_cast<unsigned char>(byte));
  return fmt::format("of an unknown kind (it begins with the bytes{})", bytes);
}

std::string describe_file_kind(const std::string& path, ExitCode code) {
  const FileDescriptor file = open_regular_file(path, code);
  const std::uint64_t size = regular_file_size(file, path, code);
  std::string first(std::min<std::uint64_t>(size, file_kind_bytes), '\0');
  read_exactly(file, path, 0, std::as_writable_bytes(std::span(first)), code);
  return describe_first_bytes(first);
}

}  // namespace trireme
