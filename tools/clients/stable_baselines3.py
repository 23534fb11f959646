"""stable-baselines3: one short training of each algorithm, whose "auto" device finds tb."""

from __future__ import annotations

import copy
import functools
import tempfile
from typing import Any

import numpy
import torch
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3

from clients.checks import Checks, Ran

checks = Checks("stable-baselines3")
SMALL = {"policy_kwargs": {"net_arch": [8]}, "seed": 0}
OFF_POLICY = {**SMALL, "buffer_size": 200, "learning_starts": 20, "batch_size": 16}


def make(algorithm: Any, device: str, environment: str, options: Any) -> Any:
    settings = {"device": "cpu"} if device == "cpu" else {}
    return algorithm("MlpPolicy", environment, **settings, **copy.deepcopy(options))  # it changes them


def train(device: str, algorithm: Any, environment: str, options: Any) -> Ran:
    """The devices draw other random actions, so that only the initial policy's answers are compared."""
    model = make(algorithm, device, environment, options)
    observation = model.observation_space.high.clip(-1, 1)
    action = model.predict(observation, deterministic=True)[0]
    before = [parameter.detach().cpu().clone() for parameter in model.policy.parameters()]
    model.learn(64)
    after = [parameter.detach().cpu() for parameter in model.policy.parameters()]
    trained = any(not torch.equal(*pair) for pair in zip(before, after, strict=True))
    finite = all(bool(parameter.isfinite().all()) for parameter in after)
    return Ran(next(model.policy.parameters()).device, [torch.as_tensor(numpy.asarray(action)), trained, finite])


ON_POLICY = {**SMALL, "n_steps": 32}
checks.add(
    "PPO", functools.partial(train, algorithm=PPO, environment="CartPole-v1", options={**ON_POLICY, "batch_size": 16})
)
checks.add("A2C", functools.partial(train, algorithm=A2C, environment="CartPole-v1", options=ON_POLICY))
checks.add("DQN", functools.partial(train, algorithm=DQN, environment="CartPole-v1", options=OFF_POLICY))
for _name, _algorithm in (("SAC", SAC), ("TD3", TD3), ("DDPG", DDPG)):
    checks.add(_name, functools.partial(train, algorithm=_algorithm, environment="Pendulum-v1", options=OFF_POLICY))


@checks.check("save and load")
def saved(device: str) -> Ran:
    model = make(PPO, device, "CartPole-v1", {**ON_POLICY, "batch_size": 16})
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.zip")
        loaded = PPO.load(f"{folder}/model.zip", **({"device": "cpu"} if device == "cpu" else {}))
    observation = numpy.array([0.1, 0.2, 0.3, 0.4], dtype="float32")
    values = loaded.policy.predict_values(torch.as_tensor(observation)[None].to(loaded.device))
    return Ran(loaded.device, values.detach().cpu())
