import shutil

import pytest

from handing import make_files


@pytest.fixture(scope="session")
def originals(tmp_path_factory):
    return make_files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def folder(originals, tmp_path):
    """A file of each kind (handing.py), for the test to damage."""
    return shutil.copytree(originals, tmp_path / "files")
