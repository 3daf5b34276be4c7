"""Every error that a user can meet, as one small tree.

A message is one sentence (or two) that says what is wrong and what to do about it; it is shown as
it is on stderr, in the editor and by `doctor`. Raise with `from` so that the log keeps the cause.
"""


class TabaheadError(Exception):
    """Base of all expected failures; anything else is a defect of ours."""


class SettingsError(TabaheadError):
    """A setting or command-line value that cannot be used."""


class RuntimeMissingError(TabaheadError):
    """onnxruntime is absent, or two of its builds overwrite each other."""


class ModelMissingError(TabaheadError):
    """The model is not on this machine (reason `model-missing`)."""


class ModelFilesError(TabaheadError):
    """A model folder that is there but broken: truncated, wrong hash, unknown schema."""


class TokenizerMismatchError(ModelFilesError):
    """A tokenizer that does not belong to the model beside it."""


class UnsupportedModelError(TabaheadError):
    """A checkpoint that the builder does not know: architecture, quantisation or pre-tokenizer."""


class FetchError(TabaheadError):
    """A model could not be downloaded, verified or stored."""


class StorageError(TabaheadError):
    """A directory that cannot be written, or a full disk."""


class InferenceError(TabaheadError):
    """The graph ran and gave something unusable, such as NaN logits (reason `engine-error`)."""


class Cancelled(TabaheadError):
    """The work was stopped by its owner: newer request, client cancel, deadline or shutdown."""
