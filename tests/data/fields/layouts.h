// SPDX-License-Identifier: Apache-2.0
// Files as other programs lay them out, and how they should be read.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/data/fields/make_fields.h"

namespace trireme::test {

using Numbers = std::function<double(std::size_t)>;

inline double noise(std::size_t i) {
  return static_cast<double>(i * 2654435761U % 1000) / 500.0 - 1;
}
inline double bytes(std::size_t i) {
  return static_cast<double>(i * 2654435761U % 251);
}
inline Numbers classes(std::size_t count, double first = 0, double step = 1) {
  return [=](std::size_t i) { return first + step * static_cast<double>(i * 7 / 3 % count); };
}
// Of 0 and one 1 in each row.
inline Numbers one_hot(std::size_t count) {
  return [=](std::size_t i) { return i / count % count == i % count ? 1.0 : 0.0; };
}

enum class Type { f4, f8, i2, i4, i8, u1, text, nothing };

inline hid_t stored_as(Type type) {
  switch (type) {
    case Type::f4:
      return H5T_IEEE_F32LE;
    case Type::f8:
      return H5T_IEEE_F64LE;
    case Type::i2:
      return H5T_STD_I16LE;
    case Type::i4:
      return H5T_STD_I32LE;
    case Type::i8:
      return H5T_STD_I64LE;
    default:
      return H5T_STD_U8LE;
  }
}

// A data set, or with "@" an attribute.
struct Stored {
  std::string path;
  std::vector<hsize_t> extents;
  Type type = Type::f4;
  Numbers numbers = noise;
  std::vector<std::string> texts{};
};

inline Stored image(const std::string& path, std::vector<hsize_t> extents) {
  return {path, std::move(extents), Type::u1, bytes};
}
inline Stored text(const std::string& path, std::vector<std::string> texts) {
  return {path, {}, Type::text, noise, std::move(texts)};
}

struct Layout {
  std::string name;
  std::vector<std::vector<Stored>> files;
  // "samples inputs target axes" of the config; or "" if none may be printed.
  std::string reading;
  std::string words{};  // in the rest of the text, or in the reason why there is none
  bool trained = false;
};

using Files = std::vector<std::vector<Stored>>;

inline Files files(int count, const std::function<std::vector<Stored>(hsize_t)>& file) {
  Files all;
  for (int i = 0; i < count; ++i)
    all.push_back(file(static_cast<hsize_t>(i)));
  return all;
}
inline Files groups(int count,
                    const std::function<std::vector<Stored>(const std::string&, hsize_t)>& group,
                    const std::string& before = "case_") {
  std::vector<Stored> all;
  for (int i = 0; i < count; ++i) {
    for (Stored& each : group(fmt::format("{}{}", before, i), static_cast<hsize_t>(i)))
      all.push_back(std::move(each));
  }
  return {all};
}

inline void write(const std::string& path, const std::vector<Stored>& contents) {
  const H5 file = make_hdf5(path);
  for (const bool attributes : {false, true}) {
    for (const Stored& each : contents) {
      const std::size_t sign = each.path.find('@');
      if ((sign != std::string::npos) != attributes) continue;
      if (!attributes && each.type == Type::text) {
        if (const std::size_t slash = each.path.rfind('/'); slash != std::string::npos) {
          const H5 links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
          H5Pset_create_intermediate_group(links, 1);
          const std::string group = each.path.substr(0, slash);
          if (H5Lexists(file, group.c_str(), H5P_DEFAULT) <= 0)
            const H5 made(H5Gcreate2(file, group.c_str(), links, H5P_DEFAULT, H5P_DEFAULT),
                          H5Gclose);
        }
        write_texts(file, each.path, each.texts, 8);
        continue;
      }
      if (!attributes) {
        std::vector<double> numbers(count_of(each.extents));
        for (std::size_t i = 0; i < numbers.size(); ++i)
          numbers[i] = each.numbers(i);
        write_field(file, each.path, {.extents = each.extents, .type = stored_as(each.type)},
                    numbers);
        continue;
      }
      const std::string name = each.path.substr(0, sign);
      const H5 object(H5Oopen(file, name.empty() ? "/" : name.c_str(), H5P_DEFAULT), H5Oclose);
      const std::string attribute = each.path.substr(sign + 1);
      if (each.type == Type::text) {
        write_texts(object, attribute, each.texts, 32, true);
      } else if (each.type == Type::nothing) {
        const H5 space(H5Screate(H5S_NULL), H5Sclose);
        const H5 made(
            H5Acreate2(object, attribute.c_str(), H5T_C_S1, space, H5P_DEFAULT, H5P_DEFAULT),
            H5Aclose);
      } else {
        write_attribute(object, attribute, each.numbers(0), stored_as(each.type));
      }
    }
  }
}

}  // namespace trireme::test
