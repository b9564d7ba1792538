"""The half that is only counted: whoever mends the tool does not open these files, nor asks what fails of them."""
