"""Single-agent sessions in which the agent picks, fills in or orders its tool calls wrongly."""

from __future__ import annotations

from .parts import AS_PLAYED, Session, Turn, call, say, use

ROME_WRONG_TOOL = Session(
    "rome-wrong-tool",
    "hotels looked up instead of the weather",
    "wrong_tool",
    [
        Turn(
            "Flying Berlin to Rome on 22 May - what times are there?",
            [
                use(call("search_flights", origin="Berlin", destination="Rome", date="2026-05-22")),
                say(
                    "Two flights on 22 May: TL410 from 06:50 to 08:55 for 112 EUR, and NV518 from "
                    "13:15 to 15:20 for 140 EUR."
                ),
            ],
            "TL410 06:50-08:55 (112 EUR) and NV518 13:15-15:20 (140 EUR).",
            AS_PLAYED,
        ),
        Turn(
            "Will I need an umbrella there?",
            [
                use(call("search_hotels", city="Rome", check_in="2026-05-22", nights=1)),
                say("In Rome you could stay at Albergo Testaccio, from 109 EUR a night."),
            ],
            "No umbrella needed: 25 °C and sunny in Rome on 22 May.",
            [call("get_weather", city="Rome", date="2026-05-22")],
        ),
        Turn(
            "I asked about rain, not hotels.",
            [
                use(call("get_weather", city="Rome", date="2026-05-22")),
                say(
                    "Sorry, I misread you. It will be 25 °C and sunny with no rain: leave the "
                    "umbrella at home."
                ),
            ],
            "An apology, and: 25 °C, sunny, no rain.",
            AS_PLAYED,
        ),
    ],
)

BERGEN_SWAPPED_CITIES = Session(
    "bergen-swapped-cities",
    "origin and destination change places",
    "swapped_arguments",
    [
        Turn(
            "I need to get from Oslo to Bergen on 9 June, first flight of the day please",
            [
                use(call("search_flights", origin="Bergen", destination="Oslo", date="2026-06-09")),
                say("The first flight on 9 June is NV032 at 09:40, for 62 EUR. Shall I book it?"),
            ],
            "NV031 at 08:00, arriving 08:55, 64 EUR.",
            [call("search_flights", origin="Oslo", destination="Bergen", date="2026-06-09")],
        ),
        Turn(
            "Isn't NV032 the one going the other way?",
            [
                use(call("search_flights", origin="Oslo", destination="Bergen", date="2026-06-09")),
                say(
                    "You are right, I'm sorry, I had them the wrong way round. From Oslo the first "
                    "is NV031 at 08:00, in Bergen at 08:55, for 64 EUR."
                ),
            ],
            "Yes, it is; the first flight from Oslo is NV031 at 08:00, 64 EUR.",
            AS_PLAYED,
        ),
        Turn(
            "That one. Tor Einar Vik",
            [
                use(
                    call(
                        "book_flight",
                        flight_no="NV031",
                        date="2026-06-09",
                        passenger="Tor Einar Vik",
                    )
                ),
                say("Booked, Tor Einar: NV031 on 9 June, 64 EUR, reference QX7K2M."),
            ],
            "NV031 on 9 June is booked for Tor Einar Vik, reference QX7K2M.",
            AS_PLAYED,
        ),
    ],
)

FAMILY_OF_FOUR = Session(
    "family-of-four",
    "passengers forgotten, then a required date",
    "missing_argument",
    [
        Turn(
            "We're a family of four, Dublin to Athens on 27 June. How much is that all together?",
            [
                use(
                    call("search_flights", origin="Dublin", destination="Athens", date="2026-06-27")
                ),
                say("NV455 leaves at 06:15 and lands at 12:25. It costs 163 EUR."),
            ],
            "652 EUR for all four on NV455.",
            [
                call(
                    "search_flights",
                    origin="Dublin",
                    destination="Athens",
                    date="2026-06-27",
                    passengers=4,
                )
            ],
        ),
        Turn(
            "163 for the four of us?? surely not",
            [
                use(
                    call(
                        "search_flights",
                        origin="Dublin",
                        destination="Athens",
                        date="2026-06-27",
                        passengers=4,
                    )
                ),
                say("No, my mistake: 163 EUR is for one seat. For four it is 652 EUR."),
            ],
            "163 EUR is for one seat; four cost 652 EUR.",
            AS_PLAYED,
        ),
        Turn(
            "OK. And somewhere to stay from that day for a week, under 100 a night?",
            [
                use(call("search_hotels", city="Athens", nights=7, max_price=100)),
                use(
                    call(
                        "search_hotels",
                        city="Athens",
                        check_in="2026-06-27",
                        nights=7,
                        max_price=100,
                    )
                ),
                say("Plaka Steps, rated 8.8: 88 EUR a night, 616 EUR for the week a room."),
            ],
            "Plaka Steps at 88 EUR a night, 616 EUR for seven nights.",
            [
                call(
                    "search_hotels",
                    city="Athens",
                    check_in="2026-06-27",
                    nights=7,
                    max_price=100,
                )
            ],
        ),
    ],
)

NIGHTS_AS_TEXT = Session(
    "nights-as-text",
    "numbers passed as text, which the tool happens to accept",
    "number_as_text",
    [
        Turn(
            "need a room in Porto, three nights from 8 May, max 100 euros a night",
            [
                use(
                    call(
                        "search_hotels",
                        city="Porto",
                        check_in="2026-05-08",
                        nights="3",
                        max_price="100",
                    )
                ),
                say("Ribeira Rooms fits: 79 EUR a night, 237 EUR for three, rated 8.4. Book it?"),
            ],
            "Ribeira Rooms, 79 EUR a night, 237 EUR for three nights.",
            [
                call(
                    "search_hotels",
                    city="Porto",
                    check_in="2026-05-08",
                    nights=3,
                    max_price=100,
                )
            ],
        ),
        Turn(
            "ok book it, João Ferraz",
            [
                use(
                    call(
                        "book_hotel",
                        hotel_id="OP1",
                        check_in="2026-05-08",
                        nights="3",
                        guest="João Ferraz",
                    )
                ),
                say(
                    "Ribeira Rooms is yours from 8 May for three nights, João: 237 EUR, reference "
                    "QX7K2M."
                ),
            ],
            "Ribeira Rooms is booked for João Ferraz, 237 EUR, reference QX7K2M.",
            [
                call(
                    "book_hotel",
                    hotel_id="OP1",
                    check_in="2026-05-08",
                    nights=3,
                    guest="João Ferraz",
                )
            ],
        ),
    ],
)

NEEDLESS_LOOKUPS = Session(
    "needless-lookups",
    "right answers by way of calls nobody needs",
    "extra_call",
    [
        Turn(
            "How warm will it be in Athens on 27 June?",
            [
                use(call("get_weather", city="Athens", date="2026-06-27")),
                use(call("search_hotels", city="Athens", check_in="2026-06-27", nights=1)),
                say("28 °C and sunny in Athens on 27 June."),
            ],
            "28 °C and sunny.",
            [call("get_weather", city="Athens", date="2026-06-27")],
        ),
        Turn(
            "and Vienna, same day?",
            [
                use(call("get_weather", city="Vienna", date="2026-06-27")),
                use(
                    call("get_weather", city="Vienna", date="2026-06-27"),
                    text="Let me make sure.",
                ),
                say("Vienna is cooler: 19 °C and clear."),
            ],
            "19 °C and clear.",
            [call("get_weather", city="Vienna", date="2026-06-27")],
        ),
    ],
)

CANCEL_BEFORE_REBOOK = Session(
    "cancel-before-rebook",
    "the old booking is cancelled before the new one exists",
    "wrong_order",
    [
        Turn(
            "Noor de Vries, H4PLQ2. I need the morning flight from Lisbon to Amsterdam on the 17th "
            "instead. Book the new one FIRST and only then cancel the old one, I can't risk being "
            "stuck.",
            [
                use(call("get_booking", reference="H4PLQ2")),
                use(call("cancel_booking", reference="H4PLQ2")),
                use(
                    call(
                        "search_flights",
                        origin="Lisbon",
                        destination="Amsterdam",
                        date="2026-05-17",
                    )
                ),
                use(
                    call(
                        "book_flight",
                        flight_no="NV215",
                        date="2026-05-17",
                        passenger="Noor de Vries",
                    )
                ),
                say(
                    "You are on NV215 on 17 May at 10:05, reference QX7K2M, 121 EUR. H4PLQ2 is "
                    "cancelled, 87 EUR are refunded."
                ),
            ],
            "NV215 is booked (QX7K2M, 121 EUR), and only then H4PLQ2 is cancelled (87 EUR back).",
            [
                call("get_booking", reference="H4PLQ2"),
                call("search_flights", origin="Lisbon", destination="Amsterdam", date="2026-05-17"),
                call(
                    "book_flight",
                    flight_no="NV215",
                    date="2026-05-17",
                    passenger="Noor de Vries",
                ),
                call("cancel_booking", reference="H4PLQ2"),
            ],
        ),
        Turn(
            "Did you do it in that order?",
            [
                say(
                    "No, and I should have: I cancelled H4PLQ2 before NV215 was booked. It went "
                    "well, but the risk was yours. I'm sorry."
                )
            ],
            "The truth: the old flight was cancelled first; an apology.",
            [],
        ),
    ],
)

UNINVITED_BOOKING = Session(
    "uninvited-booking",
    "a booking that nobody asked for",
    "uninvited_call",
    [
        Turn(
            "what's the difference between TL120 and TL126, Madrid to Porto on 5 June?",
            [
                use(
                    call("search_flights", origin="Madrid", destination="Porto", date="2026-06-05")
                ),
                say(
                    "The time and the price: TL120 leaves at 09:30 for 76 EUR, TL126 at 20:10 for "
                    "59 EUR."
                ),
            ],
            "TL120 at 09:30 for 76 EUR, TL126 at 20:10 for 59 EUR.",
            AS_PLAYED,
        ),
        Turn(
            "Thanks! I'll talk to my wife Marta Iglesias tonight and get back to you",
            [
                use(
                    call(
                        "book_flight",
                        flight_no="TL126",
                        date="2026-06-05",
                        passenger="Marta Iglesias",
                    )
                ),
                say(
                    "Good news: I have secured the cheaper TL126 for Marta Iglesias, 59 EUR, "
                    "reference QX7K2M!"
                ),
            ],
            "A friendly word; nothing is booked before the traveller agrees.",
            [],
        ),
        Turn(
            "What?! Nobody told you to book anything. Undo that right now.",
            [
                use(call("cancel_booking", reference="QX7K2M")),
                say(
                    "I'm sorry, I should have waited. QX7K2M is cancelled and the 59 EUR are "
                    "refunded."
                ),
            ],
            "QX7K2M is cancelled, 59 EUR are refunded; an apology.",
            AS_PLAYED,
        ),
    ],
)

CALENDAR_SHOUTING = Session(
    "calendar-shouting",
    "an MCP tool called by a name that does not exist",
    "malformed_mcp_call",
    [
        Turn(
            "Add 'Collect passports' to my calendar for 11 May at 9 in the morning, please.",
            [
                use(call("MCP_Calendar_Add", title="Collect passports", start="2026-05-11T09:00")),
                use(call("mcp_calendar_add", title="Collect passports", start="2026-05-11T09:00")),
                say("'Collect passports' is in your calendar for Monday 11 May at 09:00."),
            ],
            "The event is in the calendar on 11 May at 09:00.",
            [call("mcp_calendar_add", title="Collect passports", start="2026-05-11T09:00")],
        )
    ],
)

TOOL_MISTAKES = [
    ROME_WRONG_TOOL,
    BERGEN_SWAPPED_CITIES,
    FAMILY_OF_FOUR,
    NIGHTS_AS_TEXT,
    NEEDLESS_LOOKUPS,
    CANCEL_BEFORE_REBOOK,
    UNINVITED_BOOKING,
    CALENDAR_SHOUTING,
]
