"""Files: headers, arrays and JSON, written whole or not at all."""
