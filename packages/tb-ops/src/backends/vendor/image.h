// A kernel in an image of the driver's module_load: launched from Python, or for an operator as an entry of a table.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "launch/device_function.h"

namespace tb::ops::vendor {

// Loaded on a device when it first runs there, for the life of the process. Any thread may use it.
class Image {
public:
  Image(std::string bytes, std::string entry) : bytes_(std::move(bytes)), entry_(std::move(entry)) {}

  struct Launch {
    uint32_t grid[3], block[3];
    uint64_t shared_size;
    std::vector<std::string> arguments; // the bytes of each
  };
  // Queues a launch on the device's current stream. Throws c10::Error if the driver loads no modules, has no such
  // function, or refuses the launch.
  void launch(c10::DeviceIndex device, const Launch &launch);
  // One thread for each element, in blocks of at most `block` threads; none if there are no elements.
  void launch_elements(c10::DeviceIndex device, int64_t elements, uint32_t block, std::vector<std::string> arguments);

  const std::string &entry() const { return entry_; }

private:
  DeviceFunction on(c10::DeviceIndex device);

  const std::string bytes_, entry_;
  std::mutex mutex_;
  std::map<c10::DeviceIndex, DeviceFunction> functions_;
};

// The bytes of a parameter that is a tensor (tb_image_tensor); an undefined one is an absent one. Throws c10::Error if
// an image cannot take it: it is not dense, or has too many dimensions.
std::string image_parameter(const at::Tensor &tensor);

// Serves an operator by its overload with out=, for tensors of these dtypes (bits of TB_DTYPE_BIT). Asked before the
// kernels that the operator has, also before entries that were added earlier. Throws c10::Error if the operator does not
// exist, or an argument cannot be a parameter of an image.
void serve_by_image(std::shared_ptr<Image> image, const std::string &operation, const std::string &source,
                    uint32_t dtypes, uint32_t block);

} // namespace tb::ops::vendor
