"""Everything of gaptop that touches the outside world: devices, engines, hosts. It knows nothing of gaptop itself."""
