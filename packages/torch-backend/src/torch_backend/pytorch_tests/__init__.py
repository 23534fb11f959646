"""PyTorch's own test files on a PrivateUse1 device, from a checkout, beside stock CPU.

`python -m torch_backend.pytorch_tests --source CHECKOUT` runs them. The tests are those that PyTorch makes for each
type of device (`instantiate_device_type_tests`), and those that take the accelerator of the process, such as the ones
of `torch.distributed`; what a file has for the CPU alone does not concern a device.
"""
