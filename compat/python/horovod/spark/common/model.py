# model.py - what fitted models of every framework have in common.
# SPDX-License-Identifier: Apache-2.0

from pyspark.ml import Model


class FittedModel(Model):
    """A subclass keeps the arguments of its constructor in self._values, by name; label_cols and
    output_cols are among them."""

    def copy(self, extra=None):
        """Another one with the same values; Spark ML calls it."""
        other = type(self)(**self._values)
        other.uid = self.uid
        return other

    def setOutputCols(self, value):
        """Set output_cols; returns self."""
        self._values["output_cols"] = list(value)
        return self

    def getOutputCols(self):
        """The names of the columns that transform() adds."""
        return self._values["output_cols"] or [f"{c}__output" for c in self._values["label_cols"]]
