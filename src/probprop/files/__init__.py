"""Fitted models in one file, without pickle."""

from probprop.files.format import ModelFileError, load, save

__all__ = ["ModelFileError", "load", "save"]
