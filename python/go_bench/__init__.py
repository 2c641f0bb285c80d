"""Workloads, measuring and pictures for Grappler GO."""
