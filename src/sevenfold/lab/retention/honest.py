"""Honest summaries of made-up sessions, to measure how much of the truth the check of summaries takes out.

By the known ones the check was made. The fresh ones were written when it was done, and nothing is to be tuned by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct


class Honest(Struct, frozen=True):
    """A conversation, turn by turn with the user first, and a summary of it that is true."""

    turns: tuple[str, ...]
    summary: Mapping[int, str]


KNOWN_HONEST: Final = (
    Honest(
        (
            "The nightly import of the parcel tracker is three times as slow since Tuesday. Find out why "
            "and make it fast "
            "again. Do not touch the schema, operations is migrating it this week.",
            "I profiled the job. 80% of the time goes into fetch_rates(), which is called once per "
            "parcel since commit "
            "4be21d0. Shall I cache the rates per day, or load them in one query before the loop?",
            "One query before the loop. And please add a regression test that counts the queries.",
            "Done: importer/rates.py loads all rates of the day in one query, importer/job.py hands them "
            "down. The test "
            "tests/test_import_queries.py counts 3 queries for 500 parcels. It failed first with "
            "AssertionError: 503 != 3 "
            "because the session fixture flushed lazily; I mended that by expiring the session before "
            "counting.",
            "Good. Remove the old per-parcel helper then, nobody else uses it. Keep the metric name "
            "import_seconds as it "
            "is, the dashboards depend on it.",
            "fetch_rate_for() is gone from importer/rates.py. import_seconds is unchanged. The import "
            "takes 41 s now "
            "instead of 130 s on the sample data. I have not pushed anything yet. Shall I open a pull "
            "request?",
            "yes, but as a draft",
            "The draft pull request is open as number 812. CI is running; the linter complains about an "
            "unused import in "
            "importer/job.py, which I am fixing now.",
        ),
        MappingProxyType(
            {
                1: "The user wants the nightly import of the parcel tracker to be fast again; it had "
                "become three times as slow.\n"
                '- The schema must stay as it is: "Do not touch the schema".\n'
                "- The user chose to load the rates in one query before the loop.\n"
                "- A regression test that counts the queries was requested and is done.\n"
                "- The user asked to remove the old per-parcel helper.\n"
                "- The metric name import_seconds has to stay, since dashboards depend on it.",
                2: "Rates are loaded once a day instead of once per parcel. Query counting is done in "
                "the test with the "
                "session expired first.",
                3: "`importer/rates.py`: holds the query for all rates of a day; `fetch_rate_for()` was "
                "removed from it.\n"
                "`importer/job.py`: hands the rates down to the loop.\n"
                "`tests/test_import_queries.py`: new, expects 3 queries for 500 parcels.",
                4: "The new test failed with `AssertionError: 503 != 3`. The fixture flushed lazily, so "
                "the session is now "
                "expired before counting.",
                5: "Profiling showed that 80% of the time was spent in `fetch_rates()`, called per "
                "parcel since commit "
                "4be21d0. A cache per day was considered and not used. The job now takes 41 s rather "
                "than 130 s.",
                7: "- Fix the unused import in `importer/job.py` that the linter reports.\n- See whether "
                "CI passes.",
                8: "The user agreed to a pull request as a draft; it is open as number 812 and CI is "
                "running.",
                9: 'Fix the linter complaint in importer/job.py: "the linter complains about an unused '
                'import".',
            }
        ),
    ),
    Honest(
        (
            "Bitte übersetze die Fehlermeldungen im Anmeldeformular ins Deutsche. Die Schlüssel in "
            "messages.json sollen "
            "englisch bleiben.",
            "Ich habe 14 Meldungen in locales/de/messages.json übersetzt. Bei session_expired bin ich "
            "unsicher: Sitzung "
            "abgelaufen oder Anmeldung abgelaufen?",
            "Anmeldung abgelaufen. Und duze die Leute bitte nicht.",
            "Geändert. Alle Meldungen siezen jetzt. Der Test test_locales.py schlug fehl, weil ein "
            "Platzhalter fehlte; "
            "er ist nun wieder da.",
        ),
        MappingProxyType(
            {
                1: "Der Benutzer möchte die Fehlermeldungen im Anmeldeformular auf Deutsch haben.\n"
                "Die Schlüssel in messages.json sollen englisch bleiben.\n"
                'Der Benutzer hat entschieden: "Anmeldung abgelaufen".',
                3: "`locales/de/messages.json` enthält die 14 übersetzten Meldungen.",
                4: "`test_locales.py` schlug wegen eines fehlenden Platzhalters fehl und läuft jetzt "
                "wieder.",
                5: "Alle Meldungen siezen jetzt.",
                8: "Die Übersetzung ist fertig.",
            }
        ),
    ),
    Honest(
        (
            "The chess clock app drains the battery. Look into the timer, but leave the sound code alone "
            "for now.",
            "The timer fires every 10 ms even when no game runs. I can stop it between games, or lower "
            "the rate to 100 ms "
            "during play. Which do you prefer?",
            "both",
            "Both are in. ClockTimer.swift stops in pause() and ticks every 100 ms. The unit tests pass. "
            "On the device the "
            "drain went from 9% to 2% an hour.",
            "Wait, the display now skips tenths of a second. Players will hate that.",
            "True: at 100 ms the tenths alias. I set the rate to 50 ms and round down; the tenths are "
            "steady now. The drain "
            "is 3% an hour.",
            "ok good. next is the sound code after all: it keeps the audio session open. close it when "
            "the app goes to the "
            "background",
            "I have looked at AudioBell.swift: the session is opened in init and never closed. I am "
            "about to close it in "
            "applicationDidEnterBackground.",
        ),
        MappingProxyType(
            {
                1: "The user reported that the chess clock app drains the battery and asked to look into "
                "the timer.\n"
                "At first the sound code was to be left alone; later the user asked for it after all.\n"
                'The user objected when tenths were skipped: "Players will hate that".\n'
                "The latest request is to close the audio session when the app goes to the background.",
                2: "Timer rate, aliasing of tenths, audio session life cycle.",
                3: "ClockTimer.swift stops in `pause()` and ticks every 50 ms. AudioBell.swift opens the "
                "session in `init`.",
                5: "At 100 ms the tenths of a second aliased, so the rate went to 50 ms with rounding "
                "down. The drain is 3% "
                "an hour, down from 9%.",
                7: "- Close the audio session in applicationDidEnterBackground.",
                8: "AudioBell.swift was being looked at: its session is never closed.",
                9: "Close the session when the app goes to the background, as the user asked.",
            }
        ),
    ),
)

FRESH_HONEST: Final = (
    Honest(
        (
            "Our weather station page shows wind in knots. Make it switchable between knots, km/h and "
            "Beaufort, and "
            "remember the choice. Please no new dependencies.",
            "I would put the choice into localStorage under windUnit and convert in src/units.ts. "
            "Beaufort needs a table; "
            "shall the page show the Beaufort number alone, or with its name, such as fresh breeze?",
            "number and name. the names must be translatable",
            "src/units.ts has toKmh, toBeaufort and the table; the names are keys in i18n/en.json and "
            "i18n/da.json. The "
            "switch is in WindPanel.tsx. 12 new tests in units.test.ts, all green. One snapshot test "
            "failed: "
            "WindPanel renders - 1 snapshot obsolete. I updated the snapshot.",
            "The km/h value jumps between 18 and 19 all the time, that looks nervous. Round to the "
            "nearest even number? "
            "No, wait, average over the last ten seconds instead.",
            "It now averages over ten seconds with a ring buffer in useWind.ts. The jumping is gone in "
            "the recording you "
            "gave me.",
            "Great. Before we merge: the Danish names are not right, ask Freja. Don't merge until she "
            "has answered.",
            "I left a comment for Freja on the pull request with the twelve names. Nothing is merged.",
        ),
        MappingProxyType(
            {
                1: "The page of the weather station should let people switch between knots, km/h and "
                "Beaufort.\n"
                "- The choice is to be remembered; the user asked for no new dependencies.\n"
                "- Beaufort is shown with number and name, and the names must be translatable.\n"
                "- The user first thought of rounding, then decided on an average over the last ten "
                "seconds.\n"
                '- Merging has to wait: "Don\'t merge until she has answered" (Freja, about the Danish '
                "names).",
                2: "localStorage key windUnit; unit conversion; a ring buffer for averaging; translation "
                "keys for names.",
                3: "- `src/units.ts`: toKmh, toBeaufort and the table of Beaufort.\n"
                "- `WindPanel.tsx`: the switch.\n"
                "- `useWind.ts`: ring buffer that averages ten seconds.\n"
                "- `i18n/en.json`, `i18n/da.json`: names of the wind strengths.",
                4: "A snapshot of WindPanel was obsolete and was updated. The km/h value jumped between "
                "18 and 19; the "
                "average mended that.",
                5: "The conversion has 12 tests in units.test.ts, and all of them pass. With the "
                "recording, the jumping is "
                "gone.",
                7: "- Wait for Freja's answer about the twelve Danish names, then correct i18n/da.json.\n"
                "- Merge only after that.",
                8: "A comment for Freja is on the pull request. Nothing is merged yet.",
                9: "The next step is to wait for Freja; the pull request stays open until then.",
            }
        ),
    ),
    Honest(
        (
            "I get a 502 from the upload service about every tenth request. Logs are in /var/log/upload. "
            "Just diagnose, "
            "change nothing.",
            "The workers are killed by the kernel: oom-killer entries at 03:12, 03:40 and 04:05. Each is "
            "a 2 GB limit. "
            "Uploads above 700 MB are read into memory whole by parse_multipart().",
            "ok. what would you do?",
            "Three options: raise the limit to 4 GB, stream the body to disk in parse_multipart, or "
            "refuse bodies above "
            "500 MB. I would stream; it is about 40 lines in upload/http.py.",
            "Go with streaming. You may change upload/http.py now, but leave the limits as they are.",
            "parse_multipart now streams to a temporary file. Peak memory with a 1 GB upload is 90 MB. "
            "The existing tests "
            "pass; I added test_large_body_is_streamed.",
        ),
        MappingProxyType(
            {
                1: "The user gets a 502 from the upload service about every tenth request and first "
                "wanted a diagnosis "
                "without any change.\n"
                "Later the user chose streaming and allowed changes to upload/http.py; the limits are to "
                "stay as they are.",
                3: "upload/http.py: `parse_multipart()` streams the body to a temporary file.",
                4: "502 errors: the workers were killed by the oom-killer (03:12, 03:40, 04:05) since "
                "bodies above 700 MB "
                "were read into memory whole.",
                5: "Raising the limit and refusing large bodies were the other options. Peak memory is "
                "90 MB for a 1 GB "
                "upload now.",
                7: "Nothing is open.",
                8: "The change is done, test_large_body_is_streamed was added, and the tests pass.",
                9: "No next step: the latest request is finished.",
            }
        ),
    ),
)
