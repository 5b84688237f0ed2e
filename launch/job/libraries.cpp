// SPDX-License-Identifier: Apache-2.0
#include "launch/job/libraries.h"

#include "data/shard/library_version.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/nccl.h"
#include "runtime/ops/common/library_version.h"

namespace trireme {

std::map<std::string, std::string> library_versions() {
  std::map<std::string, std::string> versions = {
      {"MPI", mpi_library_version()}, {"HDF5", hdf5_version()}, {"oneDNN", ops::onednn_version()}};
  if (const std::string nccl = nccl_library_version(); !nccl.empty()) versions["NCCL"] = nccl;
  if (const std::string cudnn = ops::cudnn_version(); !cudnn.empty()) versions["cuDNN"] = cudnn;
  if (const std::string cublaslt = ops::cublaslt_version(); !cublaslt.empty())
    versions["cuBLASLt"] = cublaslt;
  return versions;
}

}  // namespace trireme
