# SPDX-License-Identifier: Apache-2.0
"""Native tasks as Gymnasium's own environments, and pictures of them."""
