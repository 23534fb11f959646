"""What implementations of OpenCL do wrong, each shown by a C program that has nothing of this project in it."""
