"""What a larger cluster would need follows from what a window costs."""

from bench.cluster import Costs


def test_needs_grow_with_gpus_and_traffic_of_a_worker_does_not() -> None:
    costs = Costs(60.0, 600.0, 100, 6.0, 24.0, 1e8)
    assert costs.needs(100) == (10.0, 1, 1, 1e8)
    assert costs.needs(1_000) == (100.0, 1, 4, 1e9)
    assert costs.needs(10_000) == (1_000.0, 10, 40, 1e9)


def test_table_has_a_line_for_each_size() -> None:
    table = Costs(60.0, 600.0, 640, 6.0, 24.0, 1e8).table().splitlines()
    assert table[0] == "| GPUs | flow records/s | coordinators | workers | GB on each worker |"
    assert table[2] == "| 640 | 10 | 1 | 1 | 0.10 |"
    assert len(table) == 6
