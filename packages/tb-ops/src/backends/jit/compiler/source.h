// The text of a kernel that a compiler gets: one file with the shim and the headers in it.
#pragma once
#include <string>

namespace tb::ops::jit {

// A kernel of the core set: its header, the function in it with its template arguments, and its argument struct.
struct Instance {
  std::string header;    // "pointwise.cuh"
  std::string body;      // "pointwise<Add, float>"; names the instance
  std::string arguments; // "PointwiseArguments"
  unsigned threads;      // the most that a block may have
  bool synchronizing;    // whether it calls __syncthreads()
  std::string defines;   // lines before all others: what the device lacks, "#define TB_NO_FLOAT64\n"
  std::string text = {}; // of a generated kernel, in place of the header, which is then a name for messages
};

// A header that makes CUDA's dialect of a compiler's language (docs/writing-device-kernels.md).
struct Shim {
  std::string name; // for the compiler's messages
  std::string text;
};

// The function that every image of these kernels exports.
inline constexpr char entry_name[] = "tb_entry";

struct Source {
  std::string name; // the instance's body
  std::string text;
  unsigned threads;
};

// The folder where the kernels' headers are installed. Set once, before the first launch.
void set_header_folder(std::string folder);
const std::string &header_folder();

// Reads a shim from a file, and puts the headers beside it that it includes by "name" into its text. `what` names who
// asked for it. Throws c10::Error if the file cannot be read.
Shim read_shim(const std::string &file, const std::string &what);
// One of tb-ops' own shims: "shim_host.cuh".
Shim own_shim(const std::string &name);

// Includes of headers that are neither tb-ops' nor the shim stay as they are.
Source make_source(const Instance &instance, const Shim &shim);

} // namespace tb::ops::jit
