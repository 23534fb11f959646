"""What one rank of a client runs: functions that clients.ranks calls in processes that torchrun starts."""
