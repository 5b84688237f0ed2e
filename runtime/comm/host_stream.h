// SPDX-License-Identifier: Apache-2.0
// A stream for calls on host memory, whatever the device of the job (see communicator.h). A call
// runs inline and is done when it returns.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace trireme {

class HostStream {
 public:
  HostStream()
      : device_(Device::create(DeviceType::cpu)),
        stream_(device_->make_stream(StreamKind::compute)) {}

  [[nodiscard]] Stream& operator*() const { return *stream_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

[[nodiscard]] inline bool is_host_stream(const Stream& stream) {
  return stream.device().type() == DeviceType::cpu;
}

}  // namespace trireme
