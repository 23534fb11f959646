// Compiled images on disk, one file for each key. Processes can share the cache: a file appears whole or not at all,
// and one process compiles an image that several want. A damaged file counts as absent.
#pragma once
#include <functional>
#include <string>

namespace tb::ops::jit {

struct ImageCounts {
  unsigned compiled, found; // images that this process compiled, and that it found in the cache
  unsigned packed;          // images of packs
};

std::string digest(const std::string &text);

// Returns an empty string if the file is absent or damaged.
std::string read_image(const std::string &path);
// Returns whether the image is written. The file appears whole or not at all.
bool write_image(const std::string &path, const std::string &image);

// Returns $TB_KERNEL_CACHE, else $XDG_CACHE_HOME/torch-backend/kernels, else ~/.cache/torch-backend/kernels. There is
// no cache if the result is empty, as it is if TB_KERNEL_CACHE is set to nothing.
std::string cache_folder();

// Returns the image of `key` from the cache, or calls compile() and keeps its result. If the folder cannot be written,
// it warns, and each process compiles its images again.
std::string cached_image(const std::string &key, const std::function<std::string()> &compile);

ImageCounts image_counts();
void count_packed_image();

} // namespace tb::ops::jit
