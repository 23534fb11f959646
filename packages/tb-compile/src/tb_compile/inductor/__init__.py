"""PyTorch's Inductor on tb: its C++ kernels, queued on the current stream, where the device's memory is the host's."""
