"""Placement methods that GO is compared with."""
