"""The parts of tools/export_model.py."""
