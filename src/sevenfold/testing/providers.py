"""What every provider and every client must do. Subclass `ProviderContract` in a test module of your own::

    from sevenfold.testing.providers import ProviderContract

    class TestParrot(ProviderContract):
        model = "parrot-1"

        def make_provider(self):
            return Parrot()

        def make_client(self, provider):
            return ParrotClient(provider, ParrotSdk())

        def known_errors(self):
            return [ParrotBusy("asleep")]

It needs pytest, which the engine itself does not. The client has to be connected to something that answers: the real
SDK on a test server, or something that stands for it. For a client without a provider of its own, there is
`ClientContract`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import msgspec
import pytest

import sevenfold
from sevenfold.errors import ModelError, RequestRefused
from sevenfold.ports import Call, Client, Piece
from sevenfold.profiles import find
from sevenfold.providers import registry
from sevenfold.providers.provider import Provider
from sevenfold.record.blocks import text_of
from sevenfold.wire.error_report import ErrorAnswer, MalformedAnswer

WORDS = ("first question", "first answer", "second question", "second answer", "third question")
"""The texts of a conversation; each occurs once."""


def body(model: str, messages: Sequence[Any], **fields: Any) -> bytes:
    """A request in the format of the Messages API."""
    return msgspec.json.encode({"model": model, "max_tokens": 500, "messages": messages, **fields})


def conversation(*texts: str) -> list[dict[str, Any]]:
    """A conversation of these texts, which the user begins."""
    return [
        {
            "role": "assistant" if number % 2 else "user",
            "content": [{"type": "text", "text": text}],
        }
        for number, text in enumerate(texts)
    ]


class ClientContract:
    """The tests of a client; a subclass says how to make one, connected to something that answers."""

    model = "offline"
    """The model to ask."""

    def make_client(self, provider: Provider) -> Client:
        """Make a client whose server answers each request with at least one text."""
        raise NotImplementedError("define make_client(self, provider) in your test class")

    def make_provider(self) -> Provider:
        """The provider of the client."""
        return registry.provider_for(self.model)

    @pytest.fixture
    def provider(self) -> Provider:
        """The provider under test."""
        return self.make_provider()

    def test_an_answer_has_what_a_session_records(self, provider: Provider) -> None:
        with closing(self.make_client(provider)) as client:
            answer = client.ask(Call(body(self.model, conversation("hello")))).answer
        assert text_of(answer.blocks).strip()
        assert answer.id
        assert answer.model
        assert answer.stop_reason

    def test_who_watches_gets_the_text_in_pieces(self, provider: Provider) -> None:
        pieces: list[Piece] = []
        with closing(self.make_client(provider)) as client:
            answer = client.ask(Call(body(self.model, conversation("hello"))), pieces.append).answer
        assert "".join(piece.words for piece in pieces if piece.kind == "text") == text_of(answer.blocks)

    def test_a_client_answers_again(self, provider: Provider) -> None:
        with closing(self.make_client(provider)) as client:
            for number in range(1, len(WORDS) + 1, 2):
                reply = client.ask(Call(body(self.model, conversation(*WORDS[:number]))))
                assert text_of(reply.answer.blocks)


class ProviderContract(ClientContract):
    """The tests of a provider; a subclass says how to make it, and a client of it."""

    def make_provider(self) -> Provider:
        """Make the provider."""
        raise NotImplementedError("define make_provider(self) in your test class")

    def known_errors(self) -> Sequence[Exception]:
        """Exceptions of the API's SDK that the provider knows."""
        raise NotImplementedError("define known_errors(self) in your test class")

    @pytest.fixture(autouse=True)
    def registered(self, provider: Provider) -> Any:
        """Register the provider for the time of a test."""
        before = list(registry._providers)
        registry.register(provider)
        yield
        registry._providers[:] = before

    # -- what it knows ---------------------------------------------------------------------------

    def test_it_serves_its_model_and_says_what_that_can_do(self, provider: Provider) -> None:
        assert provider.name
        assert registry.provider_for(self.model).name == provider.name
        profile = registry.profile_through(provider, find(self.model))
        assert profile.model == self.model
        assert profile.window > 0
        assert 0 < profile.max_output <= profile.window
        assert provider.profile(provider.profile(find(self.model))) == provider.profile(find(self.model))

    def test_errors_of_its_sdk_are_errors_of_ours_and_others_are_not(self, provider: Provider) -> None:
        assert self.known_errors()
        for error in self.known_errors():
            translated = provider.error(error, self.model)
            assert isinstance(translated, ModelError)
            assert str(translated)
        assert provider.error(ZeroDivisionError("not of any SDK"), self.model) is None

    # -- requests --------------------------------------------------------------------------------

    def test_the_same_conversation_gives_the_same_bytes(self, provider: Provider) -> None:
        call = Call(body(self.model, conversation(*WORDS)))
        assert provider.put(call) == provider.put(call)
        assert self.make_provider().put(call).body == provider.put(call).body

    def test_a_longer_conversation_begins_with_the_bytes_of_a_shorter_one(self, provider: Provider) -> None:
        for number in (1, 3):
            shorter = provider.put(Call(body(self.model, conversation(*WORDS[:number])))).body
            longer = provider.put(Call(body(self.model, conversation(*WORDS[: number + 2])))).body
            last = WORDS[number - 1].encode()
            upto = shorter.index(last) + len(last)
            assert longer[:upto] == shorter[:upto], "no server finds the shorter one in its cache"

    @pytest.mark.parametrize("what", ["system", "tools", "results", "pictures"])
    def test_nothing_is_dropped_in_silence(self, provider: Provider, what: str) -> None:
        mark = "bWFyaw=="
        call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
        tool = {"name": "look", "description": mark, "input_schema": {"type": "object"}}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": mark}
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": mark}}
        messages = conversation("hello")
        fields: dict[str, Any] = {}
        if what == "system":
            fields["system"] = [{"type": "text", "text": mark}]
        elif what == "tools":
            fields["tools"] = [tool]
        elif what == "results":
            fields["tools"] = [{**tool, "description": "looks"}]
            messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        else:
            messages = [{"role": "user", "content": [picture]}]
        try:
            encoded = provider.put(Call(body(self.model, messages, **fields)))
        except RequestRefused:
            return
        assert mark.encode() in encoded.body, f"{what} are dropped; refuse them with RequestRefused"

    # -- answers ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("garbage", [b"", b"no json", b"[]", b"null", b"\xff"])
    def test_what_is_no_answer_is_not_taken_for_one(self, provider: Provider, garbage: bytes) -> None:
        asked = body(self.model, conversation("hello"))
        with pytest.raises((MalformedAnswer, ErrorAnswer)):
            provider.read(garbage, asked=asked)

    # -- a session -------------------------------------------------------------------------------

    def test_a_session_talks_through_it_and_sends_what_it_shows(self, provider: Provider) -> None:
        client = self.make_client(provider)
        with sevenfold.Session.in_memory(model=self.model, client=client) as session:
            for number in range(2):
                session.user(f"question {number}")
                assert session.complete().text
            assert session.conversation.window.context == provider.profile(find(self.model)).window
            sent = session.at()
            assert b"question 0" in sent
            assert b"question 1" in sent
            asked = Call(session.conversation.past(-1).body, cache_key=session.conversation.cache_key)
            assert provider.put(asked).body == sent
        client.close()
