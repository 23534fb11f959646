"""Running this repository on implementations of OpenCL that others wrote."""
