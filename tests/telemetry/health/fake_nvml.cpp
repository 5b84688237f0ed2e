// SPDX-License-Identifier: Apache-2.0
// A libnvidia-ml.so.1 with one hot GPU at 00000000:65:00.0. Like an old driver, it lacks the power
// reading.
#include <cstring>

namespace {
int reads = 0;
int device = 0;
}  // namespace

extern "C" {
int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** found) {
  *found = &device;
  return std::strcmp(bus, "00000000:65:00.0") == 0 ? 0 : 6;  // NVML_ERROR_NOT_FOUND
}
int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* millijoules) {
  *millijoules = 1500ULL * static_cast<unsigned long long>(++reads);
  return 0;
}
int nvmlDeviceGetUtilizationRates(void*, unsigned* percent) {
  percent[0] = 87;
  percent[1] = 12;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* total_free_used) {
  total_free_used[0] = 80000000000ULL;
  total_free_used[1] = 60000000000ULL;
  total_free_used[2] = 20000000000ULL;
  return 0;
}
int nvmlDeviceGetClockInfo(void*, int kind, unsigned* mhz) {
  *mhz = kind == 1 ? 1230 : 9999;
  return 0;
}
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
  *celsius = 91;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 0x24;  // power cap, thermal slowdown
  return 0;
}
}
