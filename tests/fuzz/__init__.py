"""Random operator programs, run on stock cpu and on tb, and compared bit by bit. `python -m fuzz --help`.

    program     what a program is: steps, which are data
    catalogue   what a step may be: operators with operands that fit
    generate    a program from a seed
    schedule    the waits, events and record_stream that make a program on several streams correct; the script
    stage       what a script calls while it runs on a device
    compare     two runs: values, types, strides, who shares memory with whom
    shrink      the smallest program that still fails

There is no tolerance. With one OpenMP thread on both sides the same kernels add the same numbers in the same order, so
results are bit-identical (any NaN equals any NaN). With more threads, sums and matrix products may be split
differently, so `python -m fuzz` sets one thread.
"""
