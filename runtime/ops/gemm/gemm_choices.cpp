// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/gemm_choices.h"

#include <charconv>

#include "runtime/base/checksum.h"
#include "runtime/base/error.h"

namespace trireme::ops {
namespace {

constexpr std::string_view first_line = "trireme product algorithms 2";
constexpr std::string_view first_line_before = "trireme product algorithms 1";
constexpr std::string_view gpu_word = "gpu: ";
constexpr std::string_view library_word = "library: ";
constexpr std::string_view separator = " = ";
constexpr std::string_view fused_word = " fused ", apart_word = " apart ";

std::string line_of(const GemmKey& key, const GemmChoice& choice) {
  std::string line = to_text(key);
  line += separator;
  for (const std::uint64_t word : choice.algorithm)
    line += fmt::format("{:016x}", word);
  line += fmt::format(" {:.3f}", choice.microseconds);
  if (choice.apart_microseconds > 0)
    line +=
        fmt::format("{}{:.3f}", choice.fused ? fused_word : apart_word, choice.apart_microseconds);
  return fmt::format("{} {:016x}\n", line, checksum_of(line));
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : rest_(text), file_(file) {}

  [[nodiscard]] bool done() const { return rest_.empty(); }
  [[nodiscard]] std::string_view next() {
    ++line_;
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) refuse("the file ends inside a line");
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }
  // Reads a header line with this word, which must have this value.
  void expect(std::string_view word, const std::string& value) {
    const std::string_view line = next();
    if (!line.starts_with(word)) refuse(fmt::format("expected '{}...'", word));
    if (line.substr(word.size()) != value) {
      refuse(fmt::format(
          "made on {}, but this run has {}; name another file, which the run then creates",
          line.substr(word.size()), value));
    }
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ExitCode::config,
         "device.autotune: {}:{}: {}; correct or remove the line, or remove the file", file_, line_,
         what);
  }

 private:
  std::string_view rest_, file_;
  int line_ = 0;
};

template <typename T, typename... Base>
bool read_number(std::string_view text, T& value, Base... base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base...);
  return error == std::errc{} && end == text.data() + text.size();
}

// "<128 hexadecimal digits> <microseconds>[ fused|apart <microseconds apart>]".
bool read_choice(std::string_view text, GemmChoice& choice) {
  constexpr std::size_t digits = 16;
  if (text.size() < choice.algorithm.size() * digits + 1) return false;
  for (std::uint64_t& word : choice.algorithm) {
    if (!read_number(text.substr(0, digits), word, 16)) return false;
    text.remove_prefix(digits);
  }
  if (!text.starts_with(' ')) return false;
  text.remove_prefix(1);
  choice.fused = text.find(apart_word) == std::string_view::npos;
  const std::string_view word = choice.fused ? fused_word : apart_word;
  const std::size_t end = text.find(word);
  if (end != std::string_view::npos &&
      !read_number(text.substr(end + word.size()), choice.apart_microseconds))
    return false;
  return read_number(text.substr(0, end), choice.microseconds);
}

void read_line(Reader& reader, GemmChoices& choices) {
  const std::string_view line = reader.next();
  const std::size_t last = line.rfind(' '), middle = line.find(separator);
  std::uint64_t checksum = 0;
  if (middle == std::string_view::npos || !read_number(line.substr(last + 1), checksum, 16))
    reader.refuse("expected a matmul and its algorithm");
  if (checksum != checksum_of(line.substr(0, last))) reader.refuse("its checksum does not match");
  const auto key = parse_gemm_key(line.substr(0, middle));
  GemmChoice choice;
  if (!key) reader.refuse(fmt::format("'{}' is not a matmul", line.substr(0, middle)));
  const std::size_t begin = middle + separator.size();
  if (last < begin || !read_choice(line.substr(begin, last - begin), choice))
    reader.refuse("expected an algorithm and its time");
  if (!choices.algorithms.emplace(*key, choice).second) reader.refuse("this matmul appears twice");
}

}  // namespace

std::string GemmChoices::summary() const {
  std::size_t measured = 0, fused = 0;
  for (const auto& [key, choice] : algorithms) {
    const bool is_measured = choice.apart_microseconds > 0;
    measured += is_measured ? 1 : 0;
    fused += is_measured && choice.fused ? 1 : 0;
  }
  return fmt::format("{} tuned matmuls, {} of {} measured epilogues fused", algorithms.size(),
                     fused, measured);
}

std::string GemmChoices::to_text() const {
  std::string text =
      fmt::format("{}\n{}{}\n{}{}\n", first_line, gpu_word, gpu, library_word, library);
  for (const auto& [key, choice] : algorithms)
    text += line_of(key, choice);
  return text;
}

GemmChoices GemmChoices::parse(std::string_view text, std::string_view file, const std::string& gpu,
                               const std::string& library) {
  Reader reader(text, file);
  const std::string_view first = reader.next();
  if (first != first_line && first != first_line_before)
    reader.refuse(fmt::format("expected '{}'", first_line));
  reader.expect(gpu_word, gpu);
  reader.expect(library_word, library);
  GemmChoices choices{.gpu = gpu, .library = library, .algorithms = {}};
  while (!reader.done())
    read_line(reader, choices);
  return choices;
}

}  // namespace trireme::ops
