"""What is measured of a GPU: one row a metric, with the name, unit and scale that DCGM gives it.

Sources: NVIDIA DCGM's field identifiers; dcgm-exporter's `default-counters.csv` for units and types.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number that a card may give."""

    name: str  # with its unit, in base units
    help: str
    dcgm: str = ""  # DCGM's name for it, after `DCGM_FI_`; empty: it has none
    scale: float = 1.0  # what DCGM shows is the number times this
    is_counter: bool = False  # it only grows, until the driver is loaded again
    is_slow: bool = False  # it changes seldom, and is asked for seldom


MIB = 1.0 / (1 << 20)

METRICS = (
    Metric(name="utilization_percent", help="Part of the time in which a kernel ran.", dcgm="DEV_GPU_UTIL"),
    Metric(
        name="memory_access_percent",
        help="Part of the time in which device memory was read or written.",
        dcgm="DEV_MEM_COPY_UTIL",
    ),
    Metric(name="encoder_percent", help="Use of the video encoder.", dcgm="DEV_ENC_UTIL"),
    Metric(name="decoder_percent", help="Use of the video decoder.", dcgm="DEV_DEC_UTIL"),
    Metric(name="memory_used_bytes", help="Device memory in use.", dcgm="DEV_FB_USED", scale=MIB),
    Metric(name="memory_free_bytes", help="Device memory that is free.", dcgm="DEV_FB_FREE", scale=MIB),
    Metric(
        name="memory_reserved_bytes", help="Device memory that the driver keeps.", dcgm="DEV_FB_RESERVED", scale=MIB
    ),
    Metric(name="memory_total_bytes", help="Device memory in all.", dcgm="DEV_FB_TOTAL", scale=MIB),
    Metric(name="power_watts", help="What it draws.", dcgm="DEV_POWER_USAGE"),
    Metric(name="power_limit_watts", help="What it may draw.", dcgm="DEV_POWER_MGMT_LIMIT", is_slow=True),
    Metric(
        name="energy_joules",
        help="What it has drawn since the driver was loaded.",
        dcgm="DEV_TOTAL_ENERGY_CONSUMPTION",
        scale=1000.0,
        is_counter=True,
    ),
    Metric(name="temperature_celsius", help="Of the chip.", dcgm="DEV_GPU_TEMP"),
    Metric(name="memory_temperature_celsius", help="Of the memory.", dcgm="DEV_MEMORY_TEMP"),
    Metric(name="slowdown_celsius", help="From here on the card slows down.", dcgm="DEV_SLOWDOWN_TEMP", is_slow=True),
    Metric(name="shutdown_celsius", help="From here on the card switches off.", dcgm="DEV_SHUTDOWN_TEMP", is_slow=True),
    Metric(name="sm_clock_mhz", help="Clock of the multiprocessors.", dcgm="DEV_SM_CLOCK"),
    Metric(name="memory_clock_mhz", help="Clock of the memory.", dcgm="DEV_MEM_CLOCK"),
    Metric(name="sm_clock_max_mhz", help="The highest that the card allows.", dcgm="DEV_MAX_SM_CLOCK", is_slow=True),
    Metric(name="throttle_reasons", help="Why clocks are held down, as bits (NVML).", dcgm="DEV_CLOCKS_EVENT_REASONS"),
    Metric(name="pcie_sent_bytes", help="Sent over PCIe.", is_counter=True),
    Metric(name="pcie_received_bytes", help="Received over PCIe.", is_counter=True),
    Metric(
        name="pcie_replays",
        help="Transfers over PCIe that were done again.",
        dcgm="DEV_PCIE_REPLAY_COUNTER",
        is_counter=True,
        is_slow=True,
    ),
    Metric(name="pcie_generation", help="Of the link, as it is now.", dcgm="DEV_PCIE_LINK_GEN", is_slow=True),
    Metric(
        name="pcie_generation_max", help="The best that the link could be.", dcgm="DEV_PCIE_MAX_LINK_GEN", is_slow=True
    ),
    Metric(name="pcie_width", help="Lanes of the link, as it is now.", dcgm="DEV_PCIE_LINK_WIDTH", is_slow=True),
    Metric(
        name="pcie_width_max",
        help="The most lanes that the link could have.",
        dcgm="DEV_PCIE_MAX_LINK_WIDTH",
        is_slow=True,
    ),
    Metric(name="nvlink_sent_bytes", help="Sent over all NVLinks.", is_counter=True),
    Metric(name="nvlink_received_bytes", help="Received over all NVLinks.", is_counter=True),
    Metric(
        name="ecc_corrected",
        help="Errors of memory that were corrected, since the driver was loaded.",
        dcgm="DEV_ECC_SBE_VOL_TOTAL",
        is_counter=True,
        is_slow=True,
    ),
    Metric(
        name="ecc_uncorrected",
        help="Errors of memory that could not be corrected, since the driver was loaded.",
        dcgm="DEV_ECC_DBE_VOL_TOTAL",
        is_counter=True,
        is_slow=True,
    ),
    Metric(
        name="remapped_corrected_rows",
        help="Rows of memory replaced after corrected errors.",
        dcgm="DEV_CORRECTABLE_REMAPPED_ROWS",
        is_counter=True,
        is_slow=True,
    ),
    Metric(
        name="remapped_uncorrected_rows",
        help="Rows of memory replaced after errors that could not be corrected.",
        dcgm="DEV_UNCORRECTABLE_REMAPPED_ROWS",
        is_counter=True,
        is_slow=True,
    ),
    Metric(
        name="remap_pending", help="1: rows are replaced at the next reset.", dcgm="DEV_ROW_REMAP_PENDING", is_slow=True
    ),
    Metric(name="remap_failure", help="1: rows could not be replaced.", dcgm="DEV_ROW_REMAP_FAILURE", is_slow=True),
    Metric(name="recovery_action", help="What the driver advises: 0 is nothing (NVML field 230).", is_slow=True),
    Metric(name="xid", help="The last error that the driver told of.", dcgm="DEV_XID_ERRORS"),
    Metric(
        name="graphics_active_ratio", help="Part of the time in which any engine worked.", dcgm="PROF_GR_ENGINE_ACTIVE"
    ),
    Metric(name="sm_active_ratio", help="Part of the multiprocessors that worked.", dcgm="PROF_SM_ACTIVE"),
    Metric(name="sm_occupancy_ratio", help="Resident warps, of those that there could be.", dcgm="PROF_SM_OCCUPANCY"),
    Metric(
        name="tensor_active_ratio",
        help="Part of the time in which tensor cores worked.",
        dcgm="PROF_PIPE_TENSOR_ACTIVE",
    ),
    Metric(name="dram_active_ratio", help="Use of the memory's bandwidth.", dcgm="PROF_DRAM_ACTIVE"),
)
"""In the order in which they are shown and kept."""

BY_NAME = {metric.name: metric for metric in METRICS}
