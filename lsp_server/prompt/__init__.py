"""What the model sees of a document, in the form that its family was trained on."""
