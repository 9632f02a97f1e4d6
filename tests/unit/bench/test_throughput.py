"""What larger clusters need, from measured rates."""

from bench.throughput import Rates

RATES = Rates(flows_per_gpu_s=10, landed_s=2_000_000, analysed_s=250_000, bytes_per_flow=20)


def test_needs_grow_with_the_cluster_and_round_machines_up() -> None:
    assert RATES.needs(2_880) == (28_800, 1, 1, 28_800 * 86_400 * 20)
    flows_s, landing, analysing, _ = RATES.needs(1_000_000)
    assert (flows_s, landing, analysing) == (10_000_000, 5, 40)
    assert RATES.needs(1_000_001)[1:3] == (6, 41)


def test_table_has_a_row_for_each_size() -> None:
    assert RATES.table().splitlines()[2] == "| 2,880 | 28,800 | 1 | 1 | 0.05 |"
    assert len({line.count("|") for line in RATES.table().splitlines()}) == 1
