// SPDX-License-Identifier: Apache-2.0
// Which images a directory of class folders holds, split by split.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct ImageTree {
  struct Split {
    std::string name;  // train, validation, test; empty: the tree is not split
    std::vector<std::string> files;
    std::vector<std::int32_t> labels;  // of each file, in [0, classes)
  };
  std::vector<std::string> classes;  // of all splits alike
  std::vector<Split> splits;
};

// <directory>/<class>/**, or <directory>/<split>/<class>/** where every folder is train, val,
// validation or test. Classes are `class_names`, which must then hold every class folder's name,
// else the sorted class folders, of the split train where there are splits. Folders named like
// splits are classes where `class_names` holds them, or where they hold images themselves beside
// other class folders. Raises ExitCode::data for what is neither, and naming what is empty.
[[nodiscard]] ImageTree list_images(const std::string& directory,
                                    const std::vector<std::string>& class_names);

}  // namespace trireme
