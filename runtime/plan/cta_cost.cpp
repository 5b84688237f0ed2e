// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/cta_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace trireme::plan {

double matmul_slowdown(int processors, int held, int left) {
  const int blocks = std::max(1, processors - left);
  const int free = std::max(1, processors - held);
  const int waves = (blocks + free - 1) / free;
  return static_cast<double>(waves) * processors / blocks;
}

int ctas_of_message(int ranks, int most) {
  const unsigned channels = std::bit_ceil(static_cast<unsigned>(std::max(1, most)));
  unsigned each = channels;
  while (each > 1 && each * static_cast<unsigned>(ranks) > channels)
    each /= 2;
  return static_cast<int>(each);
}

int channels_of(const Links& links) {
  if (links.cta_bandwidth == 0) return 0;
  return static_cast<int>(std::ceil(links.inside.bandwidth / links.cta_bandwidth));
}

Links bounded(Links links, int ctas) {
  if (ctas == 0 || links.cta_bandwidth == 0) return links;
  for (Link* const link : {&links.inside, &links.between})
    link->bandwidth = std::min(link->bandwidth, ctas * links.cta_bandwidth);
  return links;
}

Hardware beside_messages(Hardware hardware, const MessageCtas& ctas, int stages) {
  const int processors = hardware.device.multiprocessors, channels = channels_of(hardware.links);
  if (processors == 0 || channels == 0) return hardware;
  const int each = ctas_of_message(stages, std::min(ctas.link, channels));
  const double slower = matmul_slowdown(processors, ctas.receives * each, ctas.left);
  hardware.efficiency.matmul /= slower;
  if (ctas.left_to_data) hardware.links.overlap = 1;
  return hardware;
}

}  // namespace trireme::plan
