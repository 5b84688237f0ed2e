// SPDX-License-Identifier: Apache-2.0
// Stands in for the driver's libcuda.so.1 where there is no driver: cuDNN asks for these functions before it says whether
// it supports a graph that it compiles at run time. Every one answers CUDA_ERROR_NO_DEVICE.
// clang-format off
#define NO_DEVICE(function) int function(void) { return 100; }

NO_DEVICE(cuCtxGetCurrent) NO_DEVICE(cuCtxGetDevice) NO_DEVICE(cuCtxGetLimit) NO_DEVICE(cuCtxPopCurrent)
NO_DEVICE(cuCtxPushCurrent) NO_DEVICE(cuDeviceGet) NO_DEVICE(cuDeviceGetAttribute) NO_DEVICE(cuDeviceGetCount)
NO_DEVICE(cuDevicePrimaryCtxRelease) NO_DEVICE(cuDevicePrimaryCtxReset) NO_DEVICE(cuDevicePrimaryCtxRetain)
NO_DEVICE(cuDriverGetVersion) NO_DEVICE(cuFuncGetAttribute) NO_DEVICE(cuFuncSetAttribute) NO_DEVICE(cuGetErrorName)
NO_DEVICE(cuGetErrorString) NO_DEVICE(cuInit) NO_DEVICE(cuKernelGetAttribute) NO_DEVICE(cuKernelGetFunction) NO_DEVICE(cuKernelSetAttribute)
NO_DEVICE(cuLaunchCooperativeKernel) NO_DEVICE(cuLaunchKernel) NO_DEVICE(cuLaunchKernelEx) NO_DEVICE(cuLibraryGetKernel)
NO_DEVICE(cuLibraryLoadData) NO_DEVICE(cuLibraryLoadFromFile) NO_DEVICE(cuLibraryUnload) NO_DEVICE(cuLinkAddData)
NO_DEVICE(cuLinkComplete) NO_DEVICE(cuLinkCreate) NO_DEVICE(cuLinkCreate_v2) NO_DEVICE(cuLinkAddData_v2)
NO_DEVICE(cuLinkDestroy) NO_DEVICE(cuMemcpyDtoH_v2) NO_DEVICE(cuModuleGetFunction) NO_DEVICE(cuModuleGetGlobal_v2)
NO_DEVICE(cuModuleLoadData) NO_DEVICE(cuModuleLoadDataEx) NO_DEVICE(cuModuleLoadFatBinary) NO_DEVICE(cuModuleUnload)
NO_DEVICE(cuOccupancyMaxActiveBlocksPerMultiprocessor) NO_DEVICE(cuOccupancyMaxPotentialClusterSize)
NO_DEVICE(cuStreamGetCtx) NO_DEVICE(cuStreamSynchronize) NO_DEVICE(cuTensorMapEncodeIm2col)
NO_DEVICE(cuTensorMapEncodeTiled)
