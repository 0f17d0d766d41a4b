# __init__.py - horovod.spark.common: code that the estimators share.
# SPDX-License-Identifier: Apache-2.0
