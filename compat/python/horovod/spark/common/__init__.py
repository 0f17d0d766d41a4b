# __init__.py - horovod.spark.common: what the estimators share.
# SPDX-License-Identifier: Apache-2.0
