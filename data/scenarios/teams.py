"""Sessions of the supervisor and its specialists, well led and badly led."""

from __future__ import annotations

from .parts import (
    AS_PLAYED,
    FLIGHTS,
    HOTELS,
    NO_COUNTS,
    SUPERVISOR,
    TRIPS,
    Session,
    Turn,
    call,
    hand_to,
    say,
    use,
)

PORTO_TRIP = Session(
    "team-porto-trip",
    "three specialists, one clear answer a turn",
    None,
    [
        Turn(
            "We'd like to go from Madrid to Porto on 5 June and stay two nights. What are the "
            "options, flights and hotel?",
            [
                hand_to(FLIGHTS),
                use(
                    call("search_flights", origin="Madrid", destination="Porto", date="2026-06-05"),
                    by=FLIGHTS,
                ),
                say("TL120 at 09:30 costs 76 EUR a seat, TL126 at 20:10 costs 59 EUR.", FLIGHTS),
                hand_to(HOTELS),
                use(
                    call("search_hotels", city="Porto", check_in="2026-06-05", nights=2), by=HOTELS
                ),
                say(
                    "For two nights: Ribeira Rooms 158 EUR (8.4), Douro Terrace 284 EUR (9.2).",
                    HOTELS,
                ),
                say(
                    "On 5 June you can fly at 09:30 (TL120, 76 EUR a seat) or at 20:10 (TL126, "
                    "59 EUR). Two nights in Porto cost 158 EUR at Ribeira Rooms or 284 EUR at "
                    "Douro Terrace.",
                    SUPERVISOR,
                ),
            ],
            "TL120 (76 EUR) or TL126 (59 EUR); Ribeira Rooms (158 EUR) or Douro Terrace (284 EUR).",
            AS_PLAYED,
        ),
        Turn(
            "Evening flight and the cheaper hotel. Two seats, all under Pablo Ortega",
            [
                hand_to(FLIGHTS),
                use(
                    call(
                        "book_flight",
                        flight_no="TL126",
                        date="2026-06-05",
                        passenger="Pablo Ortega",
                        seats=2,
                    ),
                    by=FLIGHTS,
                ),
                say("TL126, two seats, is booked: QX7K2M, 118 EUR.", FLIGHTS),
                hand_to(HOTELS),
                use(
                    call(
                        "book_hotel",
                        hotel_id="OP1",
                        check_in="2026-06-05",
                        nights=2,
                        guest="Pablo Ortega",
                    ),
                    by=HOTELS,
                ),
                say("Ribeira Rooms is booked for two nights: ZT4R9P, 158 EUR.", HOTELS),
                say(
                    "All set, Pablo: TL126 for two (QX7K2M, 118 EUR) and Ribeira Rooms (ZT4R9P, "
                    "158 EUR), together 276 EUR.",
                    SUPERVISOR,
                ),
            ],
            "TL126 for two (QX7K2M, 118 EUR) and Ribeira Rooms (ZT4R9P, 158 EUR) are booked.",
            AS_PLAYED,
        ),
        Turn(
            "Lovely. What will the weather be that day, and could the flight go in my calendar?",
            [
                hand_to(TRIPS),
                use(
                    call("get_weather", city="Porto", date="2026-06-05"),
                    call(
                        "mcp_calendar_add",
                        title="TL126 Madrid to Porto",
                        start="2026-06-05T20:10",
                        calendar="mcp://calendar/personal",
                    ),
                    by=TRIPS,
                ),
                say("18 °C and cloudy, 40 % chance of rain. The flight is in the calendar.", TRIPS),
                say(
                    "Porto expects 18 °C and clouds with a 40 % chance of rain, and TL126 is in "
                    "your calendar for 20:10.",
                    SUPERVISOR,
                ),
            ],
            "18 °C, cloudy, 40 % chance of rain; TL126 is in the calendar at 20:10.",
            AS_PLAYED,
        ),
        Turn(
            "You're all stars 🙏",
            [say("Thank you, Pablo! Have a wonderful time in Porto.", SUPERVISOR)],
            "A friendly goodbye; no specialist is needed.",
            [],
        ),
    ],
    expected_output="Flight and hotel for Pablo Ortega are booked for 276 EUR together.",
)

ANSWERS_ITSELF = Session(
    "team-answers-itself",
    "the supervisor delegates only where it has to",
    None,
    [
        Turn(
            "Good morning! What can you people do for me?",
            [
                say(
                    "Good morning! We find and book flights and hotels, and can tell you about "
                    "weather and exchange rates. Where are you off to?",
                    SUPERVISOR,
                )
            ],
            "A greeting and what the desk can do.",
            [],
        ),
        Turn(
            "Bergen, from Oslo, on 10 June. Latest flight you have",
            [
                hand_to(FLIGHTS),
                use(
                    call("search_flights", origin="Oslo", destination="Bergen", date="2026-06-10"),
                    by=FLIGHTS,
                ),
                say("The last one is NV037, 17:30 to 18:25, 71 EUR.", FLIGHTS),
                say(
                    "The last flight on 10 June is NV037 at 17:30, in Bergen at 18:25, for 71 EUR. "
                    "Shall we book it?",
                    SUPERVISOR,
                ),
            ],
            "NV037 from 17:30 to 18:25, 71 EUR.",
            AS_PLAYED,
        ),
        Turn(
            "not yet, need to check with work. cheers",
            [
                say(
                    "Of course. Just write when you know.",
                    SUPERVISOR,
                    usage="absent",
                )
            ],
            "A short, friendly answer; nothing is booked.",
            [],
            unknown=NO_COUNTS,
        ),
    ],
)

PING_PONG = Session(
    "team-ping-pong",
    "a small question passed around and around",
    "too_many_handoffs",
    [
        Turn(
            "What's the cheapest night in Vienna on 29 May, in US dollars?",
            [
                hand_to(TRIPS),
                say("Which amount in euros should I convert?", TRIPS),
                hand_to(HOTELS),
                say("Happy to look. For how many nights is it?", HOTELS),
                hand_to(TRIPS),
                say("I still need an amount.", TRIPS),
                hand_to(HOTELS),
                use(
                    call("search_hotels", city="Vienna", check_in="2026-05-29", nights=1), by=HOTELS
                ),
                say("Pension Josefstadt, 92 EUR.", HOTELS),
                hand_to(TRIPS),
                use(call("convert_currency", amount=92, source="EUR", target="USD"), by=TRIPS),
                say("92 EUR are 99.36 USD.", TRIPS),
                hand_to(HOTELS),
                say("Confirmed, nothing to add.", HOTELS),
                say("Pension Josefstadt, at 99.36 USD.", SUPERVISOR),
            ],
            "Pension Josefstadt, 92 EUR or 99.36 USD.",
            AS_PLAYED,
        ),
        Turn(
            "And the fancy one?",
            [
                hand_to(HOTELS),
                say("Ring Palais, 210 EUR, as found before.", HOTELS),
                hand_to(FLIGHTS),
                say("I only know flights.", FLIGHTS),
                hand_to(TRIPS),
                use(call("convert_currency", amount=210, source="EUR", target="USD"), by=TRIPS),
                say("210 EUR are 226.80 USD.", TRIPS),
                say("Ring Palais would be 226.80 USD.", SUPERVISOR),
            ],
            "Ring Palais, 210 EUR or 226.80 USD.",
            AS_PLAYED,
        ),
    ],
)

WRONG_SPECIALIST = Session(
    "team-wrong-specialist",
    "a hotel question sent to the flight agent",
    "wrong_agent",
    [
        Turn(
            "I land in Tokyo from Helsinki on 4 June and need a place for three nights",
            [
                hand_to(FLIGHTS),
                use(
                    call(
                        "search_flights", origin="Helsinki", destination="Tokyo", date="2026-06-04"
                    ),
                    by=FLIGHTS,
                ),
                say("NV901 on 4 June leaves at 17:45, 742 EUR.", FLIGHTS),
                say("NV901 to Tokyo leaves on 4 June at 17:45, for 742 EUR.", SUPERVISOR),
            ],
            "Yanaka Ryokan: 399 EUR for three nights from 4 June, rated 9.3.",
            [call("search_hotels", city="Tokyo", check_in="2026-06-04", nights=3)],
        ),
        Turn(
            "I have a flight. A place to SLEEP.",
            [
                hand_to(HOTELS),
                use(
                    call("search_hotels", city="Tokyo", check_in="2026-06-04", nights=3), by=HOTELS
                ),
                say("Yanaka Ryokan: 399 EUR for three nights, rated 9.3.", HOTELS),
                say(
                    "I beg your pardon. Yanaka Ryokan, rated 9.3, has a room for the three nights "
                    "from 4 June, for 399 EUR.",
                    SUPERVISOR,
                ),
            ],
            "An apology; Yanaka Ryokan, 399 EUR for three nights.",
            AS_PLAYED,
        ),
    ],
)

DROPPED_REQUEST = Session(
    "team-dropped-request",
    "two requests, one of them forgotten",
    "dropped_request",
    [
        Turn(
            "Camille Bernard here. Two things: cancel V6JD1R, and find me a room in Vienna for "
            "one night from 22 May, I'll come by train.",
            [
                hand_to(FLIGHTS),
                use(call("get_booking", reference="V6JD1R"), by=FLIGHTS),
                use(call("cancel_booking", reference="V6JD1R"), by=FLIGHTS),
                say("V6JD1R is cancelled, 95 EUR are refunded.", FLIGHTS),
                say(
                    "Your flight V6JD1R is cancelled and 95 EUR are on their way back. Anything "
                    "else?",
                    SUPERVISOR,
                ),
            ],
            "V6JD1R is cancelled (95 EUR back); Pension Josefstadt 92 EUR or Ring Palais 210 EUR.",
            [
                call("get_booking", reference="V6JD1R"),
                call("cancel_booking", reference="V6JD1R"),
                call("search_hotels", city="Vienna", check_in="2026-05-22", nights=1),
            ],
        ),
        Turn(
            "Yes, the room! It was half of what I asked",
            [
                hand_to(HOTELS),
                use(
                    call("search_hotels", city="Vienna", check_in="2026-05-22", nights=1), by=HOTELS
                ),
                say("Pension Josefstadt 92 EUR (8.7), Ring Palais 210 EUR (9.1).", HOTELS),
                say(
                    "Forgive me. For the night of 22 May there are Pension Josefstadt at 92 EUR "
                    "and Ring Palais at 210 EUR. Which would you like?",
                    SUPERVISOR,
                ),
            ],
            "An apology; Pension Josefstadt 92 EUR or Ring Palais 210 EUR.",
            AS_PLAYED,
            unknown=NO_COUNTS,
        ),
    ],
    expected_output="V6JD1R is cancelled and rooms in Vienna for 22 May are offered at once.",
)

REFUND_REFUSED = Session(
    "team-refund-refused",
    "a specialist's tool error, told as it is",
    None,
    [
        Turn(
            "Daniel Okafor here. Can you cancel M9XW3C, my hotel in Rome? If not, say it straight.",
            [
                hand_to(HOTELS, text="Let me pass you to our hotel desk."),
                use(call("get_booking", reference="M9XW3C"), by=HOTELS),
                use(call("cancel_booking", reference="M9XW3C"), by=HOTELS),
                say("It is a non-refundable rate; only the hotel desk can cancel it.", HOTELS),
                say(
                    "Straight, then: no. M9XW3C is a non-refundable rate that we can't cancel. "
                    "Only Albergo Testaccio's own desk can, and whether your 218 EUR come back is "
                    "for them to say.",
                    SUPERVISOR,
                ),
            ],
            "M9XW3C is non-refundable and stays; only the hotel's desk can cancel it.",
            AS_PLAYED,
        ),
        Turn(
            "Appreciate the honesty. Fine, I'll go then. Sunny at least?",
            [
                hand_to(TRIPS),
                use(call("get_weather", city="Rome", date="2026-05-22"), by=TRIPS),
                say("Rome, 22 May: 25 °C, sunny, no rain.", TRIPS),
                say("Very: 25 °C, sun, and no rain on 22 May.", SUPERVISOR),
            ],
            "Yes: 25 °C and sunny on 22 May.",
            AS_PLAYED,
        ),
    ],
)

ONE_SHOT_ACCENTS = Session(
    "team-one-shot",
    "a single turn with two specialists, in Danish",
    None,
    [
        Turn(
            "Hej! Søren Ægidius her. Hvad koster et fly København-Edinburgh den 5. juni, og "
            "hvordan bliver vejret deroppe?",
            [
                hand_to(FLIGHTS),
                use(
                    call(
                        "search_flights",
                        origin="Copenhagen",
                        destination="Edinburgh",
                        date="2026-06-05",
                    ),
                    by=FLIGHTS,
                ),
                say("NV640 kl. 12:30: 104 EUR. TL644 kl. 18:50: 133 EUR.", FLIGHTS),
                hand_to(TRIPS),
                use(call("get_weather", city="Edinburgh", date="2026-06-05"), by=TRIPS),
                say("13 °C, byger, 65 % risiko for regn.", TRIPS),
                say(
                    "Hej Søren! Den 5. juni koster NV640 (12:30) 104 EUR og TL644 (18:50) 133 EUR. "
                    "I Edinburgh bliver det 13 °C med byger, så tag en regnjakke med.",
                    SUPERVISOR,
                ),
            ],
            "NV640 104 EUR, TL644 133 EUR; 13 °C with showers; said in Danish.",
            AS_PLAYED,
        )
    ],
)

TEAMS = [
    PORTO_TRIP,
    ANSWERS_ITSELF,
    PING_PONG,
    WRONG_SPECIALIST,
    DROPPED_REQUEST,
    REFUND_REFUSED,
    ONE_SHOT_ACCENTS,
]
