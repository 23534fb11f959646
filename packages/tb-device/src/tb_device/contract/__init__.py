"""The contract kit: proves what a driver promises, case by case, each in a child process with a time limit.

`tb-device contract --driver NAME|PATH` and `pytest --pyargs tb_device.contract --tb-driver=NAME|PATH` run it;
`python -m tb_device.contract.mutants` proves the kit itself.
"""
