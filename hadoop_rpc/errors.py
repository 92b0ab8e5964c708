"""What can go wrong on the wire, by whose fault it is."""

__all__ = ["HadoopRpcError", "LocalProtocolError", "LoginRefusedError", "RemoteProtocolError"]


class HadoopRpcError(Exception):
    """The base of every error of this package."""


class RemoteProtocolError(HadoopRpcError):
    """The peer broke the protocol; the text says how. Close that connection: nothing after it can be read."""


class LocalProtocolError(HadoopRpcError):
    """We asked for something that the protocol does not allow; nothing was sent."""


class LoginRefusedError(HadoopRpcError):
    """The peer keeps the protocol but does not let us in; `exception_class` is the Java class that it named."""

    def __init__(self, exception_class: str, text: str) -> None:
        super().__init__(exception_class, text)
        self.exception_class = exception_class
        self.text = text

    def __str__(self) -> str:
        return f"login refused with {self.exception_class}: {self.text}"
