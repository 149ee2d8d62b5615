"""The OpenAPI document, one module for each function that serves HTTP."""
