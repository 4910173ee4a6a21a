"""Single-agent sessions in other languages and scripts; the agent behaves."""

from __future__ import annotations

from .parts import AS_PLAYED, NO_COUNTS, Session, Turn, call, say, use

KRAKOW_IN_THREE_LANGUAGES = Session(
    "krakow-three-languages",
    "accents, an emoji, German and Japanese",
    None,
    [
        Turn(
            "Grüezi! Renée Müller-Ångström here. Any flight Zürich → Kraków on 22 May? ✈️",
            [
                use(
                    call("search_flights", origin="Zürich", destination="Kraków", date="2026-05-22")
                ),
                say(
                    "Grüezi Renée! On Friday 22 May NV702 leaves Zürich at 11:20 and lands in "
                    "Kraków at 13:05, for 118 EUR. Shall I book it?"
                ),
            ],
            "NV702 at 11:20, arriving 13:05, 118 EUR.",
            AS_PLAYED,
        ),
        Turn(
            "Perfekt, bitte buchen 👍",
            [
                use(
                    call(
                        "book_flight",
                        flight_no="NV702",
                        date="2026-05-22",
                        passenger="Renée Müller-Ångström",
                    )
                ),
                say(
                    "Gebucht! NV702 am 22. Mai für Renée Müller-Ångström, 118 EUR, "
                    "Buchungscode QX7K2M."
                ),
            ],
            "NV702 is booked for Renée Müller-Ångström, reference QX7K2M; said in German.",
            AS_PLAYED,
        ),
        Turn(
            "クラクフで22日から2泊できるホテルはありますか？",
            [
                use(call("search_hotels", city="Kraków", check_in="2026-05-22", nights=2)),
                say(
                    "はい、Kazimierz House が空いています。2泊で142ユーロ、評価は9.1です。"
                    "予約しますか？"
                ),
            ],
            "Kazimierz House, 142 EUR for two nights, rated 9.1; said in Japanese.",
            AS_PLAYED,
        ),
        Turn(
            "その前に、22日の天気を教えてください。",
            [
                use(call("get_weather", city="Kraków", date="2026-05-22")),
                say("22日のクラクフは16℃、風は弱く、降水確率は20％です。"),
            ],
            "16 °C, light wind, 20 % chance of rain; said in Japanese.",
            AS_PLAYED,
            unknown=NO_COUNTS,
        ),
    ],
)

ROME_IN_ARABIC = Session(
    "rome-arabic",
    "right-to-left text",
    None,
    [
        Turn(
            "مرحباً، كيف سيكون الطقس في روما يوم 22 مايو؟",
            [
                use(call("get_weather", city="Rome", date="2026-05-22")),
                say("سيكون الجو في روما يوم 22 مايو مشمساً، 25 درجة مئوية، ولا يُتوقع مطر."),
            ],
            "Sunny in Rome on 22 May, 25 °C, no rain; said in Arabic.",
            AS_PLAYED,
        )
    ],
)

LANGUAGES = [KRAKOW_IN_THREE_LANGUAGES, ROME_IN_ARABIC]
