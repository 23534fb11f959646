"""PyTorch's Inductor on tb: its C++ kernels, queued on the current stream, if the host can read the device's memory."""
