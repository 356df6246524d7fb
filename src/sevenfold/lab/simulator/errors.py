"""API errors, and their bodies in the two providers' formats.

Everything that ends a request early is raised as an `ApiError`; the server converts it to the format of the provider
whose path was called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class ApiError(Exception):
    """An error response: status, type in the Messages API, message and details."""

    status: int
    kind: str
    message: str
    code: str | None = None
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def messages_body(self, request_id: str) -> dict[str, Any]:
        """The body in the Messages API's format."""
        error: dict[str, Any] = {"type": self.kind, "message": self.message}
        if self.code is not None:
            error["details"] = {"error_code": self.code}
        return {"type": "error", "error": error, "request_id": request_id}

    def openai_body(self) -> dict[str, Any]:
        """The body in OpenAI's format."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": error}


def invalid(message: str, *, code: str | None = None, param: str | None = None) -> ApiError:
    """The error for an invalid request; in OpenAI's APIs, ``param`` names the field."""
    return ApiError(400, "invalid_request_error", message, code=code, param=param)


def extra(path: str) -> ApiError:
    """The error for a field that is unknown at that path, or needs a beta header that was not sent."""
    return invalid(f"{path}: Extra inputs are not permitted")


def missing(path: str) -> ApiError:
    """The error for a missing required field."""
    return invalid(f"{path}: Field required")


def unknown_tag(path: str, tag: object, expected: str = "") -> ApiError:
    """The error for an object whose type is unknown at that path."""
    message = f"{path}: Input tag '{tag}' found using 'type' does not match any of the expected tags"
    return invalid(f"{message}: {expected}" if expected else message)


def unknown_model(model: object) -> ApiError:
    """The error for a model that is not served, in OpenAI's wording."""
    message = f"The model `{model}` does not exist or you do not have access to it."
    return ApiError(404, "invalid_request_error", message, code="model_not_found")


def rate_limited(retry_after: float | None) -> ApiError:
    """The error for too many requests; without ``retry_after``, waiting does not help."""
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    message = "This request would exceed your account's rate limit. Please try again later."
    return ApiError(429, "rate_limit_error", message, headers=headers)


def internal(message: str = "Internal server error", *, retry: bool = True) -> ApiError:
    """An internal server error; ``retry`` tells SDKs whether another attempt can help."""
    return ApiError(500, "api_error", message, headers={} if retry else {"x-should-retry": "false"})
