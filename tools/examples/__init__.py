"""Programs that use device tb, which tests and benchmarks run too: the demo, and models of several families."""
