# callbacks.py - Horovod's callbacks, for any Keras; the users' classes inherit from them.
# SPDX-License-Identifier: Apache-2.0

import re
import sys
import warnings

import numpy

from horovod._keras import backends, is_distributed
from horovod.common import arrays
from horovod.common.basics import rank, size
from horovod.common.objects import allgather_object
from horovod.common.process_sets import global_process_set
from horovod.common.semantics import Average


def _optimizer_variables(optimizer):
    """Return the variables of an optimizer.  Keras 2 has a method for them, Keras 3 a property."""
    if optimizer is None:
        return []
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def _same(a, b):
    """Return whether both arguments are, or wrap, the same TensorFlow variable."""
    return a is b or getattr(a, "_value", a) is getattr(b, "_value", b)


def _combines(model, optimizer):
    """Return whether the first training step of this model reduced gradients."""
    inner = (getattr(optimizer, name, None) for name in ("inner_optimizer", "optimizer"))
    if any(is_distributed(o) or type(o).__module__ == "horovod.tensorflow.optimizer"
           for o in (optimizer, *inner)):
        return True
    author = next(c for c in type(model).__mro__ if "train_step" in vars(c)).__module__
    if author.partition(".")[0] in ("keras", "tf_keras", "tensorflow"):
        return False
    # A step of the program's own may use a DistributedGradientTape, or combine by itself.
    operations = sys.modules.get("horovod.tensorflow.mpi_ops")
    return operations is None or operations.has_reduced()


class BroadcastGlobalVariablesCallbackImpl:
    """Gives every rank root's weights and optimizer state after the first batch."""

    def __init__(self, keras, root_rank, local_variables=None):
        super().__init__()
        self._keras, self.root_rank, self.broadcast_done = keras, root_rank, False
        if local_variables is None:
            local_variables = []
        elif not isinstance(local_variables, (list, tuple, set)):
            local_variables = [local_variables]
        self._local = list(local_variables)
        if any(not hasattr(v, "assign") for v in self._local):
            raise ValueError("All local variables must be of tf.Variable type.")

    def set_model(self, model):
        """Set the model and check its options, before Keras compiles the training step."""
        super().set_model(model)
        if getattr(model, "jit_compile", False) and backends.of(self._keras).name == "tensorflow":
            warnings.warn("jit_compile is turned off: XLA cannot compile collectives of "
                          "TensorFlow's operations",
                          RuntimeWarning, stacklevel=2)
            model.jit_compile = False

    def register_local_var(self, var):
        """Exclude this variable from the broadcast."""
        self._local.append(var)

    def on_batch_end(self, batch, logs=None):
        """Broadcast after the first batch, when the optimizer has created all its variables."""
        if self.broadcast_done:
            backends.of(self._keras).check_weights(self.model)
            return
        variables = [v for v in self.model.variables
                     if not any(_same(v, other) for other in self._local)]
        optimizer = getattr(self.model, "optimizer", None)
        backends.of(self._keras).assign(variables + _optimizer_variables(optimizer),
                                        self.root_rank)
        self.broadcast_done = True
        if size() > 1 and not _combines(self.model, optimizer):
            warnings.warn(
                f"this model's optimizer, {type(optimizer).__name__}, is not an "
                f"hvd.DistributedOptimizer: each of the {size()} ranks trains with its own "
                "gradients, and their weights will differ. Compile the model with "
                "hvd.DistributedOptimizer(optimizer); load a saved one with hvd.load_model()",
                RuntimeWarning, stacklevel=2)


class MetricAverageCallbackImpl:
    """Averages metrics over the ranks at the end of an epoch, for the callbacks that follow."""

    def __init__(self, *_args):
        super().__init__()

    def on_epoch_end(self, epoch, logs=None):
        if not logs:
            return
        names = sorted((name for name, value in logs.items()
                        if numpy.ndim(value) == 0 and not isinstance(value, str)), key=_numberless)
        _check_metrics(names)
        means = arrays.allreduce(numpy.array([float(logs[name]) for name in names]),
                                 "MetricAverage", Average, 1.0, 1.0, global_process_set)
        for name, mean in zip(names, means):
            logs[name] = float(mean)


def _numberless(name):
    """Return (a metric's name without numbers, the numbers). Keras calls the second AUC of a
    process auc_1, and the loss of a layer dense_2 dense_2_loss."""
    number = r"_(\d+)(?=_|$)"
    return re.sub(number, "", name), [int(n) for n in re.findall(number, name)]


def _check_metrics(names):
    """Raise an exception on all ranks if their metrics differ."""
    everybody = allgather_object([_numberless(name)[0] for name in names], "MetricAverage")
    other = next((r for r, theirs in enumerate(everybody) if theirs != everybody[0]), None)
    if other is not None:
        raise ValueError(
            f"MetricAverageCallback: rank 0 has the metrics {', '.join(everybody[0])}, and rank "
            f"{other} has {', '.join(everybody[other])}; compile the model with the same metrics "
            "on all ranks, and give all of them validation data, or none")


class LearningRateScheduleCallbackImpl:
    """Sets the learning rate to initial_lr times multiplier(epoch) from start_epoch until
    end_epoch.  A constant multiplier means multiplier ** (epoch - start_epoch), as in Horovod
    0.28.1, whose documentation says that the factor is constant."""

    def __init__(self, initial_lr, multiplier, start_epoch=0, end_epoch=None, staircase=True,
                 momentum_correction=True, steps_per_epoch=None):
        super().__init__()
        if initial_lr is None:
            raise ValueError("Parameter `initial_lr` is required")
        self.start_epoch, self.end_epoch, self.staircase = start_epoch, end_epoch, staircase
        self.momentum_correction, self.steps_per_epoch = momentum_correction, steps_per_epoch
        self.initial_lr, self.current_epoch = initial_lr, None
        self._momentum = None  # to be restored after the batch
        self.multiplier = multiplier if callable(multiplier) else (
            lambda epoch: multiplier ** (epoch - start_epoch))

    def _steps(self):
        """Return the number of batches in an epoch."""
        steps = (self.params or {}).get("steps")
        if steps:
            return steps
        raise ValueError("Could not autodetect the number of steps per epoch. Please specify the "
                         f"steps_per_epoch parameter to the {type(self).__name__}().")

    def on_train_begin(self, logs=None):
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self._steps()

    def on_epoch_begin(self, epoch, logs=None):
        self.current_epoch = epoch

    def _is_over(self):
        return self.end_epoch is not None and self.current_epoch >= self.end_epoch

    def on_batch_begin(self, batch, logs=None):
        if self.current_epoch < self.start_epoch or self._is_over():
            return
        if self.staircase:
            if batch == 0:
                self._adjust(self.current_epoch)
        else:
            self._adjust(self.current_epoch + float(batch) / self.steps_per_epoch)

    def on_batch_end(self, batch, logs=None):
        if self._momentum is not None:
            self.model.optimizer.momentum = self._momentum
            self._momentum = None

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs["lr"] = float(self.model.optimizer.learning_rate)

    def _adjust(self, epoch):
        optimizer = self.model.optimizer
        old = float(optimizer.learning_rate)
        new = self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = new
        if self.momentum_correction and old and new != old and getattr(optimizer, "momentum", 0):
            self._correct_momentum(optimizer, new / old)

    def _correct_momentum(self, optimizer, ratio):
        """Correct the momentum, which contains gradients times the previous learning rate.  See
        Goyal et al., 2017, section 2.1."""
        if isinstance(optimizer.momentum, (int, float)) and not getattr(
                self.model, "run_eagerly", False):
            # The compiled step has the number in it and will not read it again.
            if not getattr(self, "_warned", False):
                self._warned = True
                warnings.warn("momentum_correction has no effect: this optimizer's momentum is "
                              "part of the compiled training step", RuntimeWarning, stacklevel=2)
            return
        self._momentum = float(optimizer.momentum)
        optimizer.momentum = self._momentum * ratio


class LearningRateWarmupCallbackImpl(LearningRateScheduleCallbackImpl):
    """Raises the learning rate from initial_lr / size() to initial_lr in the first epochs."""

    def __init__(self, initial_lr, warmup_epochs=5, momentum_correction=True,
                 steps_per_epoch=None, verbose=0):
        def multiplier(epoch):
            # Adjust the epoch to a whole number after the last batch.
            epoch += 1.0 / self.steps_per_epoch
            return 1.0 / size() * (epoch * (size() - 1) / warmup_epochs + 1)

        super().__init__(initial_lr, multiplier, start_epoch=0, end_epoch=warmup_epochs,
                         staircase=False, momentum_correction=momentum_correction,
                         steps_per_epoch=steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        if epoch == self.end_epoch - 1 and self.verbose > 0 and rank() == 0:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to "
                  f"{float(self.model.optimizer.learning_rate):g}.")
