# SPDX-License-Identifier: Apache-2.0
"""Drawing for plots, reports, cards and pages: one palette, axes of matplotlib, inline SVG."""
