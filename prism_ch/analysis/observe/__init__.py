"""From flow records to bursts of payload, counted once and by right clocks."""
