"""Whether tb-generator's numbers have the distributions that they should: many samples, and dieharder on the words."""
