"""From a module to the `.pt2` file that Penstock reads: the steps of tools/export_model.py."""
