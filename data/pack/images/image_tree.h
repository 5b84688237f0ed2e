// SPDX-License-Identifier: Apache-2.0
// Lists the images of a directory of class folders, by split.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct ImageTree {
  struct Split {
    std::string name;  // train, validation, test; empty: the tree is not split
    std::vector<std::string> files;
    std::vector<std::int32_t> labels;  // per file, in [0, classes)
  };
  std::vector<std::string> classes;  // of all splits
  std::vector<Split> splits;
};

// <directory>/<class>/**, or <directory>/<split>/<class>/** if every folder is train, val,
// validation or test. Classes are `class_names`, which must then contain every class folder's name,
// else the sorted class folders (of the split train if there are splits). Folders named like splits
// are classes if `class_names` contains them, or if they hold images themselves beside other class
// folders. Raises ExitCode::data for anything else, and names empty folders.
[[nodiscard]] ImageTree list_images(const std::string& directory,
                                    const std::vector<std::string>& class_names);

}  // namespace trireme
