// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/accepted.h"

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/mask/bind.h"

namespace stof {

const Mask& same_for_every_text(const Mask& mask) {
  if (depends_on_batch(mask))
    fail(ErrorKind::invalid_argument,
         "mask {}: it depends on the batch index; accepted: masks that are the same for every text, "
         "since texts are regrouped",
         mask.text());
  return mask;
}

Device device_for_models(const std::string& name) {
  const Device device = open_device(name);
  const bool lacks = device.backend->missing_for_models != nullptr && !device.backend->missing_for_models().empty();
  return name == "auto" && lacks ? open_device("cpu") : device;
}

}  // namespace stof
