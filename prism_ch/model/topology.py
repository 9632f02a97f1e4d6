"""Which endpoint sits in which server, rail, leaf and tenant."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from prism_ch.model.columns import Int32, UInt8, freeze


@dataclass(frozen=True, slots=True)
class Topology:
    """The endpoints known at one time, one a row, sorted by address; the row number is the endpoint's id.

    `server`, `leaf`, `pod` and `tenant` are indices into the tuples of names (`server_names`, ...).
    An endpoint without a tenant has the tenant named "".
    """

    endpoints: tuple[str, ...]
    server: Int32
    gpu: UInt8
    rail: Int32
    leaf: Int32
    pod: Int32
    tenant: Int32
    server_names: tuple[str, ...]
    leaf_names: tuple[str, ...]
    pod_names: tuple[str, ...]
    tenant_names: tuple[str, ...]
    index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        freeze(self, server=np.int32, gpu=np.uint8, rail=np.int32, leaf=np.int32, pod=np.int32, tenant=np.int32)
        if len(self.endpoints) != len(self.server):
            raise ValueError(f"{len(self.endpoints)} endpoints, but {len(self.server)} servers in the columns")
        object.__setattr__(self, "index", {name: row for row, name in enumerate(self.endpoints)})

    def __len__(self) -> int:
        return len(self.endpoints)
