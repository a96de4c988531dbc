# SPDX-License-Identifier: Apache-2.0
"""The house's rules as programs: one module per group of rules, run by tools/check."""
