// Compiled images on disk, one file for each key. Safe against other processes: a file appears whole or not at all, and
// of several that want the same image one compiles it. A file that is damaged counts as absent.
#pragma once
#include <functional>
#include <string>

namespace tb::ops::jit {

struct ImageCounts {
  unsigned compiled, found; // by this process, in the cache
};

// $TB_KERNEL_CACHE, else $XDG_CACHE_HOME/torch-backend/kernels, else the same below ~/.cache. Empty: no cache, as
// TB_KERNEL_CACHE= (empty) asks for.
std::string cache_folder();

// The image of `key`, by compile() if the cache has none. If the folder cannot be written, each process compiles the images
// again, with a warning.
std::string cached_image(const std::string &key, const std::function<std::string()> &compile);

ImageCounts image_counts();

} // namespace tb::ops::jit
