"""Mappers of flux-core's sdexec for GPUs with partitions, see dcm-flux(7).

They replace the device nodes of the built-in mapper, which has one render node for each GPU. Cores and
memory nodes are those of the built-in mapper.
"""

import subprocess

from flux.sdexec.map import HwlocMapper


def device_allow(*arguments):
    """Return DeviceAllow= with the device nodes that dcm prints."""
    done = subprocess.run(
        ["/usr/bin/dcm", "flux", "devices", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise OSError(done.stderr.strip())
    return {"DeviceAllow": ",".join(f"{node} rw" for node in done.stdout.split())}


class GPUMapper(HwlocMapper):
    """A GPU of Flux is a GPU: a job can open all partitions of its GPUs."""

    def map_gpus(self, gpus):
        return device_allow("--whole", gpus) if gpus else {}


class PartitionMapper(HwlocMapper):
    """A GPU of Flux is a partition: a job can open its partitions only."""

    def map_gpus(self, gpus):
        return device_allow(gpus) if gpus else {}
