// Packs of images: folders with compiled kernels, which are read before any compiler runs.
//
// A pack has a folder for each architecture. In it are the shim with which the kernels were compiled, "shim.cuh", and
// one file for each kernel, named by the digest of the kernel's text. So an image of other headers or of another shim is
// never found.
#pragma once
#include <string>
#include <vector>

#include "backends/jit/compiler/source.h"

namespace tb::ops::jit {

// Names a pack beside those of the vendors' tables and of TB_KERNEL_IMAGES. Before the driver opens.
void add_image_pack(std::string folder);

class ImagePack {
public:
  ImagePack(std::string folder, const std::string &architecture);

  // Whether it has images for the architecture.
  bool exists() const;
  bool has_shim(const Shim &shim) const { return shim.text == shim_.text; }
  // Returns an empty string if the pack lacks the image.
  std::string find(const Instance &instance) const;
  // Makes the architecture's folder with the shim. Throws c10::Error if it has another shim.
  void create(const Shim &shim);
  // Throws c10::Error if the file cannot be written.
  void write(const Instance &instance, const std::string &image) const;

  const std::string folder;

private:
  std::string place_; // the architecture's folder
  Shim shim_;
};

// The packs that have images for the architecture, in the order: TB_KERNEL_IMAGES (folders with ':' between them; set to
// nothing, there are no packs at all), tables, added ones. A pack whose shim is not the declared one is left out.
std::vector<ImagePack> find_image_packs(const std::string &architecture);

} // namespace tb::ops::jit
