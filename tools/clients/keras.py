"""keras on torch: it chooses one device for the process, and `keras.device` gives another."""

from __future__ import annotations

import keras
import numpy
import torch

from clients.checks import Checks, Ran

checks = Checks("keras")


def data() -> tuple[numpy.ndarray, numpy.ndarray]:
    inputs = numpy.random.default_rng(0).normal(size=(32, 4)).astype("float32")
    return inputs, inputs.sum(1, keepdims=True)


def model() -> keras.Model:
    keras.utils.set_random_seed(0)
    start = keras.initializers.RandomNormal
    layers = [
        keras.layers.Dense(8, "relu", kernel_initializer=start(seed=1)),
        keras.layers.Dense(1, kernel_initializer=start(seed=2)),
    ]
    made = keras.Sequential([keras.Input((4,)), *layers])
    made.set_weights([numpy.linspace(-1, 1, weight.size).reshape(weight.shape) for weight in made.get_weights()])
    return made


def fitted() -> Ran:
    made = model()
    made.compile(optimizer="adam", loss="mse")
    history = made.fit(*data(), epochs=2, batch_size=8, shuffle=False, verbose=0)
    predicted = made.predict(data()[0], verbose=0)
    return Ran(made.weights[0].value.device, [history.history["loss"], torch.as_tensor(predicted)])


@checks.check("fits and predicts", 1e-3)
def fit(device: str) -> Ran:
    if device == "cpu":
        with keras.device("cpu"):
            return fitted()
    return fitted()


@checks.check("operators", 1e-4)
def operators(device: str) -> Ran:
    def compute() -> Ran:
        value = keras.ops.matmul(keras.ops.ones((2, 3)), keras.ops.ones((3, 2)))
        return Ran(value.device, keras.ops.convert_to_numpy(value).tolist())

    if device == "cpu":
        with keras.device("cpu"):
            return compute()
    return compute()
