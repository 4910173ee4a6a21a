"""The in-memory travel world: flights, hotels, weather, and the tools that work on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from langchain_core.tools import StructuredTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from langchain_core.tools import BaseTool

Row = dict[str, Any]

# How long each tool takes. Nothing sleeps: the recorder adds these up, so that a recording made on
# a busy machine is the same file as one made on an idle machine.
TOOL_SECONDS: dict[str, float] = {
    "search_flights": 0.62,
    "book_flight": 0.88,
    "search_hotels": 0.55,
    "book_hotel": 0.81,
    "get_booking": 0.17,
    "cancel_booking": 0.46,
    "get_weather": 0.24,
    "convert_currency": 0.09,
    "mcp_calendar_add": 0.31,
}

_FLIGHTS = [
    # number, from, to, departs, arrives, EUR a seat
    ("NV214", "Amsterdam", "Lisbon", "07:05", "09:10", 129),
    ("TL880", "Amsterdam", "Lisbon", "15:40", "17:45", 98),
    ("NV215", "Lisbon", "Amsterdam", "10:05", "14:00", 121),
    ("TL881", "Lisbon", "Amsterdam", "19:20", "23:15", 87),
    ("NV031", "Oslo", "Bergen", "08:00", "08:55", 64),
    ("NV037", "Oslo", "Bergen", "17:30", "18:25", 71),
    ("NV032", "Bergen", "Oslo", "09:40", "10:35", 62),
    ("NV038", "Bergen", "Oslo", "19:10", "20:05", 69),
    ("TL410", "Berlin", "Rome", "06:50", "08:55", 112),
    ("NV518", "Berlin", "Rome", "13:15", "15:20", 140),
    ("TL411", "Rome", "Berlin", "18:30", "20:35", 105),
    ("NV702", "Zürich", "Kraków", "11:20", "13:05", 118),
    ("NV703", "Kraków", "Zürich", "14:00", "15:50", 115),
    ("TL120", "Madrid", "Porto", "09:30", "09:50", 76),
    ("TL126", "Madrid", "Porto", "20:10", "20:30", 59),
    ("TL121", "Porto", "Madrid", "10:40", "12:55", 72),
    ("NV640", "Copenhagen", "Edinburgh", "12:30", "13:25", 104),
    ("TL644", "Copenhagen", "Edinburgh", "18:50", "19:45", 133),
    ("NV641", "Edinburgh", "Copenhagen", "14:15", "17:05", 101),
    ("NV901", "Helsinki", "Tokyo", "17:45", "13:20+1", 742),
    ("TL302", "Paris", "Vienna", "07:30", "09:30", 95),
    ("TL308", "Paris", "Vienna", "18:05", "20:05", 83),
    ("TL303", "Vienna", "Paris", "10:15", "12:20", 92),
    ("NV455", "Dublin", "Athens", "06:15", "12:25", 163),
    ("NV456", "Athens", "Dublin", "13:30", "15:50", 158),
]

_HOTELS = [
    # id, city, name, EUR a night, guest rating
    ("LX1", "Lisbon", "Casa do Miradouro", 118, 8.9),
    ("LX2", "Lisbon", "Hotel Baixa Azul", 84, 8.1),
    ("OP1", "Porto", "Ribeira Rooms", 79, 8.4),
    ("OP2", "Porto", "Douro Terrace", 142, 9.2),
    ("RM1", "Rome", "Albergo Testaccio", 109, 8.6),
    ("RM2", "Rome", "Trastevere Garden", 156, 9.0),
    ("BG1", "Bergen", "Bryggen Loft", 151, 8.8),
    ("BG2", "Bergen", "Harbour Bunk", 62, 7.5),
    ("KR1", "Kraków", "Kazimierz House", 71, 9.1),
    ("ED1", "Edinburgh", "Leith Walk Inn", 97, 8.2),
    ("ED2", "Edinburgh", "Castle View", 188, 9.0),
    ("TK1", "Tokyo", "Yanaka Ryokan", 133, 9.3),
    ("VI1", "Vienna", "Pension Josefstadt", 92, 8.7),
    ("VI2", "Vienna", "Ring Palais", 210, 9.1),
    ("AT1", "Athens", "Plaka Steps", 88, 8.8),
]

_WEATHER = {
    "Lisbon": "22 °C, sunny, 5 % chance of rain",
    "Porto": "18 °C, cloudy, 40 % chance of rain",
    "Rome": "25 °C, sunny, 0 % chance of rain",
    "Bergen": "11 °C, rain, 90 % chance of rain",
    "Kraków": "16 °C, light wind, 20 % chance of rain",
    "Edinburgh": "13 °C, showers, 65 % chance of rain",
    "Tokyo": "24 °C, humid, 35 % chance of rain",
    "Vienna": "19 °C, clear, 10 % chance of rain",
    "Athens": "28 °C, sunny, 0 % chance of rain",
}

_PER_EURO = {
    "EUR": 1.0,
    "NOK": 11.6,
    "CHF": 0.94,
    "PLN": 4.25,
    "JPY": 163.0,
    "USD": 1.08,
    "GBP": 0.85,
    "DKK": 7.46,
}

_NEW_REFERENCES = ("QX7K2M", "ZT4R9P", "BW8N3D", "JC5V6H", "RL2G7S")

_SOLD_OUT = {("NV640", "2026-06-12"), ("TL308", "2026-05-29")}


def _bookings_on_file() -> dict[str, Row]:
    rows: list[Row] = [
        _flight_booking("H4PLQ2", "TL881", "2026-05-17", "Noor de Vries", 87),
        _flight_booking("K2TT7B", "NV456", "2026-06-20", "Sofia Marin", 158),
        _flight_booking("V6JD1R", "TL302", "2026-05-21", "Camille Bernard", 95),
        {
            "reference": "M9XW3C",
            "hotel": "Albergo Testaccio",
            "check_in": "2026-05-22",
            "nights": 2,
            "guest": "Daniel Okafor",
            "total_eur": 218,
            "refundable": False,
            "status": "confirmed",
        },
    ]
    return {row["reference"]: row for row in rows}


def _flight_booking(
    reference: str, flight_no: str, date: str, passenger: str, total_eur: float, seats: int = 1
) -> Row:
    return {
        "reference": reference,
        "flight_no": flight_no,
        "date": date,
        "passenger": passenger,
        "seats": seats,
        "total_eur": total_eur,
        "refundable": True,
        "status": "confirmed",
    }


class BookingError(ValueError):
    """The request cannot be met; the text is fit for the model to read."""


class ProviderDown(ConnectionError):
    """A supplier did not answer; nothing turns this into a tool result, so it ends the run."""


@dataclass
class World:
    """Everything one session can look up or change; each session gets its own.

    Attributes:
        outages: How many further calls of a tool fail as if its supplier were down.
        bookings: By reference, including some made before the session began.
    """

    outages: dict[str, int] = field(default_factory=dict[str, int])
    bookings: dict[str, Row] = field(default_factory=_bookings_on_file)
    _made: int = 0
    _events: int = 0

    def search_flights(
        self,
        origin: str,
        destination: str,
        date: str,
        passengers: int = 1,
    ) -> Row:
        """List flights between two cities on a date, with the price for all passengers in EUR."""
        self._answer_or_fail("search_flights")
        found = [
            {"flight_no": no, "departs": dep, "arrives": arr, "total_eur": eur * passengers}
            for no, start, end, dep, arr, eur in _FLIGHTS
            if (start, end) == (origin, destination) and (no, date) not in _SOLD_OUT
        ]
        return {"route": f"{origin}-{destination}", "date": date, "flights": found}

    def book_flight(self, flight_no: str, date: str, passenger: str, seats: int = 1) -> Row:
        """Book seats on a flight in the name of a passenger."""
        self._answer_or_fail("book_flight")
        price = next((f[5] for f in _FLIGHTS if f[0] == flight_no), None)
        if price is None:
            raise BookingError(f"there is no flight {flight_no}")
        if (flight_no, date) in _SOLD_OUT:
            raise BookingError(f"{flight_no} on {date} is sold out")
        reference = self._new_reference()
        booking = _flight_booking(reference, flight_no, date, passenger, price * seats, seats)
        self.bookings[reference] = booking
        return dict(booking)

    def search_hotels(
        self, city: str, check_in: str, nights: int, max_price: float | None = None
    ) -> list[Row]:
        """List hotels in a city, cheapest first, at most max_price EUR a night."""
        self._answer_or_fail("search_hotels")
        found = [
            {
                "hotel_id": i,
                "name": name,
                "per_night_eur": eur,
                "total_eur": eur * nights,
                "rating": r,
            }
            for i, where, name, eur, r in sorted(_HOTELS, key=lambda h: h[3])
            if where == city and (max_price is None or eur <= max_price)
        ]
        return [{"check_in": check_in, **row} for row in found]

    def book_hotel(self, hotel_id: str, check_in: str, nights: int, guest: str) -> Row:
        """Book a room in the name of a guest."""
        self._answer_or_fail("book_hotel")
        hotel = next((h for h in _HOTELS if h[0] == hotel_id), None)
        if hotel is None:
            raise BookingError(f"there is no hotel {hotel_id}")
        reference = self._new_reference()
        self.bookings[reference] = {
            "reference": reference,
            "hotel": hotel[2],
            "check_in": check_in,
            "nights": nights,
            "guest": guest,
            "total_eur": hotel[3] * nights,
            "refundable": True,
            "status": "confirmed",
        }
        return dict(self.bookings[reference])

    def get_booking(self, reference: str) -> Row:
        """Look up a booking by its six-character reference."""
        self._answer_or_fail("get_booking")
        if reference not in self.bookings:
            raise BookingError(f"no booking has the reference {reference}")
        return dict(self.bookings[reference])

    def cancel_booking(self, reference: str) -> Row:
        """Cancel a booking and refund it to the original means of payment."""
        self._answer_or_fail("cancel_booking")
        booking = self.bookings.get(reference)
        if booking is None:
            raise BookingError(f"no booking has the reference {reference}")
        if not booking["refundable"]:
            raise BookingError(f"{reference} is a non-refundable rate, cancel at the hotel desk")
        booking["status"] = "cancelled"
        return {"reference": reference, "status": "cancelled", "refund_eur": booking["total_eur"]}

    def get_weather(self, city: str, date: str) -> str:
        """Give the forecast for a city on a date."""
        self._answer_or_fail("get_weather")
        if city not in _WEATHER:
            raise BookingError(f"no forecast for {city}")
        return f"{city}, {date}: {_WEATHER[city]}"

    def convert_currency(self, amount: float, source: str, target: str) -> float:
        """Convert an amount between two currencies given by their three-letter codes."""
        self._answer_or_fail("convert_currency")
        for code in (source, target):
            if code not in _PER_EURO:
                raise BookingError(f"no rate for {code}")
        return round(amount / _PER_EURO[source] * _PER_EURO[target], 2)

    def mcp_calendar_add(
        self, title: str, start: str, calendar: str = "mcp://calendar/personal"
    ) -> Row:
        """Add an event to the traveller's own calendar through its MCP server."""
        self._answer_or_fail("mcp_calendar_add")
        self._events += 1
        return {"event": f"{calendar}/{self._events}", "title": title, "start": start}

    def _answer_or_fail(self, tool: str) -> None:
        if self.outages.get(tool, 0) > 0:
            self.outages[tool] -= 1
            raise ProviderDown(f"{tool}: the supplier refused the connection")

    def _new_reference(self) -> str:
        self._made += 1
        return _NEW_REFERENCES[self._made - 1]


def tools_of(world: World, names: Iterable[str]) -> list[BaseTool]:
    """The named methods of a world as tools, in the order given."""
    methods = cast("Mapping[str, Callable[..., Any]]", {n: getattr(world, n) for n in names})
    return [StructuredTool.from_function(method) for method in methods.values()]
