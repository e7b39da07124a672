"""Fitted models in one file, without pickle."""

from probprop.files.format import ModelFileError
from probprop.files.models import load, save

__all__ = ["ModelFileError", "load", "save"]
