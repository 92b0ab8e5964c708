"""Errors on the wire, by the side that caused them."""

__all__ = ["HadoopRpcError", "LocalProtocolError", "LoginRefusedError", "RemoteProtocolError"]


class HadoopRpcError(Exception):
    """The base of every error of this package."""


class RemoteProtocolError(HadoopRpcError):
    """The peer broke the protocol; the text says how. Close the connection: nothing that follows can be read."""


class LocalProtocolError(HadoopRpcError):
    """The caller asked for something that the protocol does not allow; nothing was sent."""


class LoginRefusedError(HadoopRpcError):
    """The server refused the login within the protocol; `exception_class` is the Java class that it named."""

    def __init__(self, exception_class: str, text: str) -> None:
        super().__init__(exception_class, text)
        self.exception_class = exception_class
        self.text = text

    def __str__(self) -> str:
        return f"login refused with {self.exception_class}: {self.text}"
