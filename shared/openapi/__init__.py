"""OpenAPI document of the API. Each module documents the operations of one function, or some of them."""
